"""How long the runs of a plan will take, estimated from rows of similar runs, and from which rows.

    for each run, the first of these that has rows:
        the same method, data set and parameters, with other seeds or splits
        the same method and data set
        the same method, on data of half to twice as many training rows
    its seconds are the median of theirs: loading, warming up, fit and prediction

Rows of this machine come before those of others. A run without such rows is counted, not guessed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from kbench.errors import counted
from kbench.run.planning.command import canonical
from kbench.run.planning.task import Run

_BEFORE = ("load_s", "warmup_s")
_WORK = ("fit_wall_s", "predict_wall_s")  # what `limits.wall_s` ends
# Columns of the rows that `expected` reads; `status` is "ok" in all of them.
COLUMNS = ("method", "dataset", "params", "n_train", "environment", *_BEFORE, *_WORK)

_SAME = "the same settings"
_DATA = "the same method and data set"
_SIZE = "the same method on data of similar size"
# Seconds of a run that no column has, such as the start of its worker and its scores. It is the
# limit that `scripts/bench_overhead.py` checks, and negligible in long runs.
_OVERHEAD_S = 0.1
# Training rows of data of similar size: at most this factor more or fewer. Set by hand.
_SIMILAR = 2.0


def expected(
    runs: Sequence[Run], rows: Iterable[Mapping[str, Any]], environment: str | None, at_once: int
) -> list[str]:
    """What `kbench plan` says of the time of the runs to do, one line for each fact.

    rows : of runs that are ok, with `COLUMNS`. environment : of this machine; None if a cluster
    does the runs, `at_once` of them at the same time.
    """
    similar = _Similar(rows, environment)
    seconds, basis, unknown = [], Counter[tuple[str, bool]](), 0
    for run in runs:
        estimate = similar.seconds(run)
        if estimate is None:
            unknown += 1
            continue
        seconds.append(estimate[0])
        basis[estimate[1:]] += 1
    lines = []
    if seconds:
        total = max(sum(seconds) / at_once, *seconds, 0.0)
        jobs = f", {at_once} at a time" if at_once > 1 else ""
        by = "; ".join(
            f"{n} by rows of {what}, {'here' if here else 'on other machines'}"
            for (what, here), n in basis.most_common()
        )
        lines.append(f"time: about {spoken(total)} for {counted(len(seconds), 'run')}{jobs} ({by})")
    if unknown:
        lines.append(f"time: not known for {counted(unknown, 'run')}, which no row is similar to")
    return lines


def spoken(seconds: float) -> str:
    """'40 s', '12 minutes', '3.5 hours'."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


class _Similar:
    """Seconds of rows by what they have in common with a run."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], environment: str | None) -> None:
        self._found: defaultdict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
        self._sizes: dict[str, int] = {}  # data set -> training rows
        self._of_method: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
        for row in rows:
            method, dataset = row["method"], row["dataset"]
            here = environment in (None, row["environment"])
            parts = [sum(row[name] or 0.0 for name in names) for names in (_BEFORE, _WORK)]
            for key in ((_SAME, method, dataset, row["params"]), (_DATA, method, dataset)):
                self._found[here, *key].append((parts[0], parts[1]))
            self._of_method[method, here].add(dataset)
            if row["n_train"]:
                self._sizes[dataset] = row["n_train"]

    def seconds(self, run: Run) -> tuple[float, str, bool] | None:
        """(expected seconds, what the rows have in common with the run, of this machine)."""
        exact = (_SAME, run.method, run.dataset, canonical(run.params))
        for key in (exact, (_DATA, run.method, run.dataset)):
            for here in (True, False):
                if timings := self._found.get((here, *key)):
                    return self._median(timings, run), key[0], here
        for here in (True, False):
            if timings := self._of_similar_size(run, here):
                return self._median(timings, run), _SIZE, here
        return None

    def _of_similar_size(self, run: Run, here: bool) -> list[tuple[float, float]]:
        facts = run.dataset_config.get("facts") or {}
        n = self._sizes.get(run.dataset) or facts.get("n_train") or facts.get("n")
        near = [
            dataset
            for dataset in self._of_method[run.method, here]
            if n and n / _SIMILAR <= self._sizes.get(dataset, 0) <= n * _SIMILAR
        ]
        return [row for name in near for row in self._found[here, _DATA, run.method, name]]

    @staticmethod
    def _median(timings: list[tuple[float, float]], run: Run) -> float:
        most = run.limits.wall_s
        return median(
            _OVERHEAD_S + before + (work if most is None else min(work, most))
            for before, work in timings
        )
