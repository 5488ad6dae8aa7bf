"""Estimate the time of a plan's runs from rows of similar runs.

    For each run, the first of these sets that has rows:
        the same method, data set and parameters, with other seeds or splits
        the same method and data set
        the same method, on data of half to twice as many training rows
    The estimate is the median of their seconds of loading, warm-up, fit and prediction.

In each set, rows of this machine are preferred to rows of other machines. A run without such rows
is only counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from kbench.errors import counted
from kbench.run.planning.task import Run

_BEFORE = ("load_s", "warmup_s")
_WORK = ("fit_wall_s", "predict_wall_s")  # limited by `limits.wall_s`
# Columns that `duration_lines` reads of rows with status ok.
COLUMNS = ("method", "dataset", "params", "n_train", "environment", *_BEFORE, *_WORK)

# Relations of rows to a run, as the lines name them.
_SETTINGS = "the same settings"
_DATASET = "the same method and data set"
_SIZE = "the same method on data of similar size"
# Seconds of a run that are in no column, such as the start of its worker and its scores: the limit
# that `scripts/bench_overhead.py` sets for their median.
_OVERHEAD_S = 0.1
# Largest ratio of the training rows of data of similar size. Set by hand.
_MAX_SIZE_RATIO = 2.0


def duration_lines(
    runs: Sequence[Run], rows: Iterable[Mapping[str, Any]], environment: str | None, at_once: int
) -> list[str]:
    """Lines of `kbench plan` about the time of the runs to do.

    rows : Rows with status ok, with `COLUMNS`. environment : Id of this machine's environment; None
    if a cluster does the runs. at_once : Number of simultaneous runs.
    """
    similar = _SimilarRows(rows, environment)
    seconds, basis, unknown = [], Counter[tuple[str, bool]](), 0
    estimates: dict[tuple[Any, ...], tuple[float, str, bool] | None] = {}
    for run in runs:
        key = run.method, run.data_key, run.params_key, run.limits.wall_s  # for any seed
        if key not in estimates:
            estimates[key] = similar.seconds(run)
        estimate = estimates[key]
        if estimate is None:
            unknown += 1
            continue
        seconds.append(estimate[0])
        basis[estimate[1:]] += 1
    lines = []
    if seconds:
        total = max(sum(seconds) / at_once, *seconds, 0.0)
        jobs = f", {at_once} at a time" if at_once > 1 else ""
        basis_text = "; ".join(
            f"{n} by rows of {relation}, {'here' if is_local else 'on other machines'}"
            for (relation, is_local), n in basis.most_common()
        )
        n_runs = counted(len(seconds), "run")
        lines.append(f"time: about {duration_text(total)} for {n_runs}{jobs} ({basis_text})")
    if unknown:
        lines.append(f"time: not known for {counted(unknown, 'run')}, which no row is similar to")
    return lines


def duration_text(seconds: float) -> str:
    """Seconds as a text: '40 s', '12 minutes', '3.5 hours'."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


class _SimilarRows:
    """Timings of rows by their relation to a run: equal settings, data or size."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], environment: str | None) -> None:
        # (of this machine, relation, *what is equal) -> (seconds before, seconds of work) of rows
        self._timings: defaultdict[tuple[Any, ...], list[tuple[float, float]]] = defaultdict(list)
        self._sizes: dict[str, int] = {}  # data set -> training rows
        self._datasets_of_method: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
        for row in rows:
            method, dataset = row["method"], row["dataset"]
            is_local = environment in (None, row["environment"])
            before, work = (sum(row[c] or 0.0 for c in columns) for columns in (_BEFORE, _WORK))
            for key in ((_SETTINGS, method, dataset, row["params"]), (_DATASET, method, dataset)):
                self._timings[is_local, *key].append((before, work))
            self._datasets_of_method[method, is_local].add(dataset)
            if row["n_train"]:
                self._sizes[dataset] = row["n_train"]

    def seconds(self, run: Run) -> tuple[float, str, bool] | None:
        """(expected seconds, relation of the rows to the run, whether they are of this machine)."""
        exact = (_SETTINGS, run.method, run.dataset, run.params_key)
        for key in (exact, (_DATASET, run.method, run.dataset)):
            for is_local in (True, False):
                if timings := self._timings.get((is_local, *key)):
                    return self._median(timings, run), key[0], is_local
        for is_local in (True, False):
            if timings := self._of_similar_size(run, is_local):
                return self._median(timings, run), _SIZE, is_local
        return None

    def _of_similar_size(self, run: Run, is_local: bool) -> list[tuple[float, float]]:
        facts = run.dataset_config.get("facts") or {}
        n = self._sizes.get(run.dataset) or facts.get("n_train") or facts.get("n")
        datasets = [
            dataset
            for dataset in self._datasets_of_method[run.method, is_local]
            if n and n / _MAX_SIZE_RATIO <= self._sizes.get(dataset, 0) <= n * _MAX_SIZE_RATIO
        ]
        return [
            row for name in datasets for row in self._timings[is_local, _DATASET, run.method, name]
        ]

    @staticmethod
    def _median(timings: list[tuple[float, float]], run: Run) -> float:
        limit = run.limits.wall_s
        return median(
            _OVERHEAD_S + before + (work if limit is None else min(work, limit))
            for before, work in timings
        )
