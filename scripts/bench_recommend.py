"""Regret of `kbench recommend` when each data set of the reference rows is left out in turn.

    python scripts/bench_recommend.py [results]

For each data set with rows of at least three methods, kernel_svc (regression: krr) among them: all
rows of the data set are hidden, methods are recommended from the others, and the first recommended
method that has rows on the data set is taken. Regret is the score of the best method minus that of
the chosen one, in points of accuracy (regression: in percent of the least RMSE). Beside it stands
the regret of always taking kernel_svc (krr).
"""

import math
import sys
from collections import defaultdict

import numpy as np

from kbench.report.comparisons.reading import frame, run_records
from kbench.report.comparisons.tables import Comparison, comparisons
from kbench.report.recommend import Wanted, best_lines, density, recommend
from kbench.run.results.folder import ResultsFolder

ALWAYS = {"binary": "kernel_svc", "multiclass": "kernel_svc", "regression": "krr"}
LEAST_METHODS = 3


def regret(one: Comparison, method: str) -> float:
    """Points of accuracy, or percent of RMSE, that a method's best line is behind the best."""
    scores = {m: line.mean_sd(one.score.column)[0] for m, line in best_lines(one).items()}
    if one.score.sign > 0:
        return 100.0 * (max(scores.values()) - scores[method])
    return 100.0 * (scores[method] / min(scores.values()) - 1.0)


def main() -> None:
    """Print a line for each data set, and the means."""
    folder = ResultsFolder(sys.argv[1] if len(sys.argv) > 1 else "results")
    rows, _ = frame(folder, None, None, reference=True, trials=False)
    every = [one for one in comparisons(run_records(rows)) if one.problem.n_train]
    largest: dict[str, Comparison] = {}
    for one in every:
        name = one.problem.dataset
        if name not in largest or len(best_lines(one)) > len(best_lines(largest[name])):
            largest[name] = one
    means = defaultdict(list)
    print(f"{'data set':24}{'recommended':20}{'regret':>8}{'always':>8}")
    for name, one in sorted(largest.items()):
        task, methods = one.problem.task, best_lines(one)
        if len(methods) < LEAST_METHODS or ALWAYS[task] not in methods:
            continue
        others = [other for other in every if other.problem.dataset != name]
        wanted = Wanted(task, one.problem.n_train, one.problem.n_features, None, density(one))
        ranked = [e.method for e in recommend(others, wanted).evidence if e.method in methods]
        chosen = ranked[0] if ranked else ALWAYS[task]
        ours, always = regret(one, chosen), regret(one, ALWAYS[task])
        means[task != "regression"].append((ours, always))
        print(f"{name:24}{chosen if ranked else 'refuses':20}{ours:8.2f}{always:8.2f}")
    for classes, pairs in means.items():
        ours, always = np.mean(pairs, axis=0)
        unit = "points of accuracy, always kernel_svc" if classes else "% of RMSE, always krr"
        print(f"mean of {len(pairs)}: {ours:.2f} {unit} {always:.2f}")
        assert not math.isnan(ours)


if __name__ == "__main__":
    main()
