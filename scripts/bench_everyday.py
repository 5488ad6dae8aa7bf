"""KernelSVC and KernelSVR beside SVC and SVR on standardised data that nobody tuned for.

    python scripts/bench_everyday.py [--only NAME ...] [--C C ...] [--pairs P] [--list] [--intelex]
    python scripts/bench_everyday.py --nu NU ... [--only NAME ...] [--pairs P]
    python scripts/bench_everyday.py --automatic [--only NAME ...]

Both solve the same problem, gamma="scale", tol=1e-3, the peer with cache_size=2000. Seconds are CPU
seconds of one thread, medians of pairs of fits in one process after an untimed fit of 500 rows; a
peer that takes longer than `_ONCE` is not repeated. `kernel` is the number of our kernel values in
units of n^2, `steps` are the iterations of both, `violation` is ours in float64, `times` is the
peer's seconds divided by ours; geometric means come last. The generators are those of
`scripts/everyday.py` and scikit-learn. --automatic fits each estimator that chooses its parameters
once: CPU seconds, and the error on 2,000 other rows (error rate, or RMSE in deviations of the
target), beside HistGradientBoosting. --nu compares KernelNuSVC and KernelNuSVR with NuSVC and
NuSVR at these values instead; a nu that is infeasible, or at which the peer fails, is left out.
With --intelex the peers are those of scikit-learn-intelex, on the one core that the process keeps.
"""

import argparse
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import everyday  # noqa: E402
import numpy as np  # noqa: E402
from sklearn import datasets, ensemble  # noqa: E402
from sklearn.preprocessing import StandardScaler, normalize  # noqa: E402
from sklearn.svm import SVC, SVR, NuSVC, NuSVR  # noqa: E402

from kbench import methods  # noqa: E402

Rows = tuple[np.ndarray, np.ndarray]
_ONCE = 20.0  # CPU seconds of a peer above which one fit stands for all pairs


class Line(NamedTuple):
    """A problem: rows drawn by `make(n, generator)`, standardised unless they are `raw`."""

    make: Callable[[int, np.random.Generator], Rows]
    rows: int = 8000
    Cs: tuple[float, ...] = (1.0, 10.0, 100.0)
    raw: bool = False

    def data(self, extra: int = 0) -> Rows:
        X, y = self.make(self.rows + extra, np.random.default_rng(0))
        return (X if self.raw else StandardScaler().fit_transform(X)), y


def labels(make: Callable[..., Rows], fraction: float) -> Callable[..., Rows]:
    """Two classes of a regression: this fraction of the rows, with the largest targets, are 1."""

    def make_labelled(n: int, rng: np.random.Generator) -> Rows:
        X, y = make(n, rng)
        return X, (y > np.quantile(y, 1.0 - fraction)).astype(int)

    return make_labelled


def table(n: int, rng: np.random.Generator) -> Rows:
    """Indicators of 14 dependent categorical columns, 123 in all, as in adult."""
    factors, columns = rng.normal(size=(n, 2)), []
    for size in (5, 8, 5, 16, 7, 14, 6, 5, 2, 5, 5, 5, 20, 20):
        score = factors @ rng.normal(size=2) + 0.15 * rng.normal(size=n)
        edges = np.quantile(score, np.cumsum(rng.dirichlet(np.ones(size)))[:-1])
        columns.append(np.eye(size)[np.digitize(score, edges)])
    X = np.hstack(columns)
    effect = X @ rng.normal(size=X.shape[1])
    return X, effect / effect.std() + 0.7 * rng.normal(size=n)


def make_heavy(n: int, rng: np.random.Generator) -> Rows:
    """Columns of Student's t with 2 degrees of freedom, and a log-normal target of deviation 1."""
    X, y = everyday.heavy_rows(n, rng, 20)
    return X, np.exp(0.5 * y) / np.exp(0.5 * y).std()


def embeddings(n: int, rng: np.random.Generator, d: int, k: int) -> Rows:
    """Unit rows in float32 around overlapping directions of k classes."""
    y = rng.integers(0, k, n)
    X = rng.normal(size=(n, 64)) + 0.6 * rng.normal(size=(k, 64))[y]
    X = X @ rng.normal(size=(64, d)) + 4.0 * rng.normal(size=(n, d))
    return normalize(X).astype(np.float32), y


adult = labels(table, 0.25)
heavy = partial(everyday.heavy_rows, d=20)
mixture = partial(everyday.generated, datasets.make_classification)
friedman1 = everyday.generated(datasets.make_friedman1, noise=1.0)
several = mixture(n_features=18, n_informative=8, n_clusters_per_class=4)
LINES = {
    "one-hot table": Line(adult),
    "one-hot table, raw": Line(adult, raw=True),
    "sparse binary, 3 %": Line(partial(everyday.words, positive=0.03)),
    "noise": Line(everyday.of_target(lambda y, rng: rng.integers(0, 2, len(y)), d=10), 5000),
    "heavy tails": Line(labels(heavy, 0.5), 6000),
    "mixture 50, flipped": Line(mixture(n_features=50, n_informative=10, flip_y=0.1)),
    "mixture 4": Line(mixture(n_features=4, n_informative=4, n_redundant=0), 3089),
    "6 classes": Line(mixture(n_features=36, n_informative=12, n_classes=6), 4435),
    "26 classes": Line(everyday.many_classes, 5000),
    "moons": Line(everyday.generated(datasets.make_moons, noise=0.3)),
    "circles": Line(everyday.generated(datasets.make_circles, noise=0.2, factor=0.5)),
    "hastie": Line(everyday.generated(datasets.make_hastie_10_2)),
    "checkerboard": Line(everyday.checkerboard),
    "linear classes": Line(labels(everyday.linear_target, 0.3)),
    "regression, heavy tails": Line(heavy),
    "friedman1": Line(friedman1),
    "friedman2": Line(everyday.generated(datasets.make_friedman2, noise=20.0)),
    "friedman3": Line(everyday.generated(datasets.make_friedman3, noise=0.1)),
    "smooth, 26 columns": Line(partial(everyday.normal_rows, d=26)),
    "43,000 heavy tails": Line(make_heavy, 43_000, (50.0,)),
    "embeddings 384": Line(partial(embeddings, d=384, k=2), Cs=(1.0, 10.0), raw=True),
    "embeddings 768": Line(partial(embeddings, d=768, k=5), Cs=(1.0, 10.0), raw=True),
}
AUTOMATIC = {
    "rfm, 18 columns": (
        "RecursiveFeatureRegressor",
        Line(partial(everyday.normal_rows, d=18), 15_000),
    ),
    "rfm, 18 columns, classes": ("RecursiveFeatureClassifier", Line(several, 15_000)),
    "rfm, 123 columns": ("RecursiveFeatureClassifier", Line(adult, 16_000, raw=True)),
    "ridge": ("TunedKernelRidge", Line(partial(everyday.normal_rows, d=10))),
    "ridge, friedman1": ("TunedKernelRidge", Line(friedman1, 15_000)),
    "svr": ("TunedKernelSVR", Line(partial(everyday.normal_rows, d=10))),
    "svr, heavy tails": ("TunedKernelSVR", Line(heavy)),
    **{
        f"{k} classes": ("TunedKernelSVC", Line(partial(everyday.many_classes, k=k), 4200))
        for k in (20, 60, 120, 200)
    },
}


def seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """CPU seconds of a fit."""
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


# By the parameter that is varied: our classes and their peers.
CLASSIFIERS = {"C": (methods.KernelSVC, SVC), "nu": (methods.KernelNuSVC, NuSVC)}
REGRESSORS = {"C": (methods.KernelSVR, SVR), "nu": (methods.KernelNuSVR, NuSVR)}


def compare(name: str, line: Line, parameter: str, value: float, pairs: int) -> float:
    """Print a line; return the peer's seconds as a multiple of ours, or nan if either fails."""
    X, y = line.data()
    ours, peer = (CLASSIFIERS if everyday.is_class_target(y) else REGRESSORS)[parameter]
    model, other = ours(**{parameter: value}), peer(**{parameter: value}, cache_size=2000)
    mine, theirs = [], []
    try:
        model.fit(X[:500], y[:500])
        for _ in range(pairs):
            mine.append(seconds(model, X, y))
            if max(theirs, default=0.0) <= _ONCE:
                theirs.append(seconds(other, X, y))
    except ValueError as error:
        print(f"{name:24} {parameter}={value:<4g} {str(error)[:80]}", flush=True)
        return math.nan
    fast, slow = statistics.median(mine), statistics.median(theirs)
    counted = f"kernel {model.kernel_entries_ / len(y) ** 2:6.2f}  steps {np.sum(model.n_iter_):8}"
    print(
        f"{name:24} {parameter}={value:<4g} {fast:8.3f} {slow:8.3f} s {slow / fast:6.2f} times"
        f"  {counted} / {np.sum(other.n_iter_):8}  violation {np.max(model.violation_):.1g}",
        flush=True,
    )
    return slow / fast


def automatic(name: str, method: str, line: Line) -> None:
    """Print the seconds and the error of an estimator that chooses its parameters."""
    X, y = line.data(extra=2000)
    kind, n = "Classifier" if everyday.is_class_target(y) else "Regressor", line.rows
    for cls in (getattr(methods, method), getattr(ensemble, f"HistGradientBoosting{kind}")):
        model = cls(random_state=0).fit(X[:600], y[:600])
        fit_s = seconds(model, X[:n], y[:n])
        losses = everyday.losses_at(model, X[n:], y[n:])
        error = losses.mean() if kind == "Classifier" else np.sqrt(losses.mean()) / y.std()
        print(f"{name:24} {cls.__name__:32} {fit_s:8.2f} s  error {error:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--C", nargs="+", type=float, metavar="C")
    parser.add_argument("--nu", nargs="+", type=float, metavar="NU")
    parser.add_argument("--pairs", type=int, default=3, metavar="P")
    parser.add_argument("--automatic", action="store_true")
    parser.add_argument("--intelex", action="store_true")
    parser.add_argument("--list", action="store_true", help="names of the lines")
    options = parser.parse_args()
    known: dict[str, Any] = AUTOMATIC if options.automatic else LINES
    if set(options.only or ()) - set(known) or options.list:
        print("\n".join(known))
        return
    if options.intelex:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        from sklearnex import svm

        CLASSIFIERS["C"], REGRESSORS["C"] = (
            (methods.KernelSVC, svm.SVC),
            (methods.KernelSVR, svm.SVR),
        )
    warnings.simplefilter("ignore")
    ratios: dict[float, list[float]] = {}
    for name in options.only or known:
        if options.automatic:
            automatic(name, *AUTOMATIC[name])
            continue
        parameter = "nu" if options.nu else "C"
        for value in options.nu or options.C or LINES[name].Cs:
            ratio = compare(name, LINES[name], parameter, value, options.pairs)
            if not math.isnan(ratio):
                ratios.setdefault(value, []).append(ratio)
    all_ratios = [ratio for some in ratios.values() for ratio in some]
    for value, some in [*sorted(ratios.items()), ("any", all_ratios)] if all_ratios else []:
        mean = statistics.geometric_mean(some)
        print(f"{value:<6} {len(some)} lines, lowest {min(some):.2f}, geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
