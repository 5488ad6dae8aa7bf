"""Measures the costs of `early_svc_scale` by fits of seconds, with the program that they describe.

Five fits differ in the number of rows and in the rows of a cluster; their phases, in CPU seconds,
and the sizes of their machines give the laws by least squares. Two fits by a Dask worker for each
core give what the process that collects spends on a task and on a cluster, and how much slower a
core is while the others work.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np
from scipy.optimize import nnls
from sklearn.base import clone

from kbench.chunked import ChunkedRows
from kbench.clustering.rows_by_cluster import spill
from kbench.errors import ConfigError
from kbench.methods.early_svc_scale import PowerLaw, ScaleCosts, expected_visits
from kbench.methods.out_of_core.out_of_core import sample_size, task_size
from kbench.trace import Trace

# Fits that are measured: part of the rows, and rows of a cluster in parts of the wanted ones.
_FITS = ((1, 1), (4, 1), (16, 1), (4, 2), (4, 4))
# Least rows, in clusters: the smallest fit has two.
_LEAST = 32
# Even probabilities at which the sizes of clusters are kept.
_QUANTILES = 33
# Rows that are predicted at once: few for each cluster, and many.
_PREDICTED = (2_000, 50_000)
# Runs on disk, of rows each, by which the time to open one is measured.
_RUNS, _RUN_ROWS = 40, 64


@dataclass(frozen=True)
class _Fit:
    """A fit that was measured; `seconds` are CPU seconds by phase."""

    n: int
    levels: float
    sizes: np.ndarray
    seconds: dict[str, float]
    n_centres: float
    model: Any

    @property
    def n_clusters(self) -> int:
        return len(self.sizes)


def measure(
    model: Any, X: Any, y: np.ndarray, *, cluster_rows: int, memory_mb: float, cores: int
) -> ScaleCosts:
    """Costs of fits like that of `model` to rows like these.

    Parameters
    ----------
    model : DCSVC
        Unfitted; its number of clusters does not matter.
    X : (n, d) float32 or float64 array, which may be a memory map
    y : (n,) labels
    cluster_rows : int
        Rows of a cluster, on average.
    memory_mb : float
        `memory_mb` of the rows in chunks.
    cores : int
        Cores of this machine, each of which gets a Dask worker.

    Raises
    ------
    ConfigError
        There are fewer than 32 clusters of rows.
    """
    import psutil

    n = X.shape[0]
    if n < _LEAST * cluster_rows:
        raise ConfigError(
            f"{n:,} rows are too few to measure clusters of {cluster_rows:,}: there should be at "
            f"least {_LEAST * cluster_rows:,} rows, or smaller clusters"
        )

    def rows(size: int) -> ChunkedRows:
        return ChunkedRows.of_arrays(X[:size], y[:size], memory_mb=memory_mb)

    settings = clone(model)._settings()
    fit = _Fitter(model, rows, settings["branching"])
    fit(2 * cluster_rows, cluster_rows)  # compiles
    fits = [fit(n // part, cluster_rows // smaller) for part, smaller in _FITS]
    sample = [sample_size(settings["n_samples"], f.n_clusters) * f.levels for f in fits]
    level = _level(fits, X)
    row, centre, visit, decode = _prediction(fits, X, level)
    machine, of_centre = _fitted(
        [[f.n_clusters, f.n_clusters * f.n_centres] for f in fits],
        [f.model._machine.machines.nbytes for f in fits],
    )
    tree = fits[0].model._machine.assign.__self__.nbytes / fits[0].n_clusters
    busy, task, record = _in_workers(fit, fits[0], cores)
    run, piece = _runs(X)
    return ScaleCosts(
        cluster_rows=cluster_rows,
        n_features=X.shape[1],
        itemsize=X.dtype.itemsize,
        memory_mb=memory_mb,
        branching=settings["branching"],
        n_samples=settings["n_samples"],
        cache_mb=float(model.cache_mb),
        survey=_rate([f.n for f in fits], [f.seconds["survey"] for f in fits]),
        tree=_rate(sample, [f.seconds["tree"] for f in fits]),
        divide=max(
            0.0,
            _rate(
                [f.n for f in fits],
                [f.seconds["divide"] - level * f.levels * f.n for f in fits],
            ),
        ),
        level=level,
        solve=_law(fits, [f.seconds["train"] / f.n_clusters for f in fits]),
        centres=_law(fits, [f.n_centres for f in fits]),
        spread=np.quantile(
            fits[0].sizes / fits[0].sizes.mean(), np.linspace(0.0, 1.0, _QUANTILES)
        ).tolist(),
        busy=busy,
        task=task,
        record=record,
        run=run,
        piece=piece,
        row=row,
        centre=centre,
        visit=visit,
        decode=decode,
        tree_bytes=tree,
        machine_bytes=float(machine),
        centre_bytes=float(of_centre),
        cores=cores,
        ram=float(psutil.virtual_memory().total),
    )


class _Fitter:
    """Fits the model to the first rows, in clusters of some size."""

    def __init__(self, model: Any, rows: Callable[[int], ChunkedRows], branching: int) -> None:
        self._model, self._rows, self._branching = model, rows, branching

    def __call__(self, n: int, cluster_rows: int) -> _Fit:
        K = n // cluster_rows
        trace = Trace()
        model = clone(self._model).set_params(n_clusters=K)
        model.fit(self._rows(n), trace=trace)
        return _Fit(
            n,
            max(1.0, math.log(K) / math.log(self._branching)),
            model.cluster_sizes_,
            dict(trace.cpu_timings),
            model.n_support_.sum() / K,
            model,
        )


def _rate(amounts: Sequence[float], seconds: Sequence[float]) -> float:
    """Seconds of a unit, by least squares of the absolute errors: long fits weigh most."""
    return float(np.dot(amounts, seconds) / np.dot(amounts, amounts))


def _fitted(terms: Sequence[Sequence[float]], values: Sequence[float]) -> np.ndarray:
    """Factors >= 0 of the terms by least squares of the relative errors."""
    weights = 1.0 / np.asarray(values)
    return nnls(np.asarray(terms) * weights[:, None], np.ones(len(weights)))[0]


def _law(fits: Sequence[_Fit], values: Sequence[float]) -> PowerLaw:
    """A power law by least squares of the logarithms, which clusters weigh alike."""
    sizes = [fit.sizes.mean() for fit in fits]
    terms = np.column_stack([np.ones(len(fits)), np.log(sizes), np.log([fit.n for fit in fits])])
    weights = np.sqrt([fit.n_clusters for fit in fits])
    factor, cluster, rows = np.linalg.lstsq(terms * weights[:, None], np.log(values) * weights)[0]
    return PowerLaw(float(np.exp(factor)), float(cluster), float(rows))


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """Least CPU seconds of three calls."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        function(*arguments)
        found.append(time.process_time() - begin)
    return min(found)


def _level(fits: Sequence[_Fit], X: Any) -> float:
    """Seconds of a row for each level of the tree."""
    some = np.ascontiguousarray(X[: max(_PREDICTED)])
    seconds = [_seconds(fit.model._machine.assign, some) for fit in fits]
    u = len(some)
    return float(_fitted([[u, u * fit.levels] for fit in fits], seconds)[1])


def _prediction(fits: Sequence[_Fit], X: Any, level: float) -> tuple[float, float, float, float]:
    """Seconds for each row, for each row and centre, each visit, and each machine decoded."""
    terms, values, decode = [], [], []
    for fit in fits:
        for u in _PREDICTED:
            some = np.ascontiguousarray(X[:u])
            begin = time.process_time()
            fit.model.predict(some)
            first = time.process_time() - begin
            seconds = _seconds(fit.model.predict, some)
            if u == _PREDICTED[0]:
                visited = expected_visits(len(some), fit.n_clusters)
                decode.append((first - seconds) / visited)
            routed = seconds - level * fit.levels * len(some)
            terms.append(
                [len(some), len(some) * fit.n_centres, expected_visits(len(some), fit.n_clusters)]
            )
            values.append(max(routed, 0.1 * seconds))
    row, centre, visit = _fitted(terms, values)
    return float(row), float(centre), float(visit), max(0.0, float(np.median(decode)))


def _runs(X: Any) -> tuple[float, float]:
    """Seconds to open a run of rows on disk, and to read a piece of a cluster from it."""
    some = np.ascontiguousarray(X[: _RUNS * _RUN_ROWS])
    memory_mb = 8 * _RUN_ROWS * some.shape[1] * some.itemsize / 2**20
    rows = ChunkedRows.of_arrays(some, np.zeros(len(some)), memory_mb=memory_mb)
    with TemporaryDirectory() as folder:
        spilled = spill(
            rows,
            lambda X, _: np.arange(len(X)) % 2,
            2,
            Path(folder) / "rows",
            encode=lambda block: np.zeros(block.X.shape[0], np.int32),
            nbytes=some.nbytes,
        )
        function, arguments = spilled.__reduce__()[:2]
        opened = _seconds(function, *arguments)
        read = _seconds(spilled.cluster, 0)
        return opened / spilled.n_runs, read / spilled.n_runs


def _in_workers(fit: _Fitter, alone: _Fit, cores: int) -> tuple[float, float, float]:
    """How much slower a busy core is; seconds of the collector for each task and each cluster."""
    if find_spec("distributed") is None:
        return 1.0, math.nan, math.nan
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None}
    with (
        LocalCluster(n_workers=cores, silence_logs=logging.CRITICAL, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
        joblib.parallel_config("dask", client=client),
    ):
        size = int(alone.sizes.mean())
        fit(_LEAST * size // 8, size // 8)  # imports in the workers
        before = sum(client.run(time.process_time).values())
        first = fit(alone.n, size)
        worked = sum(client.run(time.process_time).values()) - before
        # As many tasks, of more clusters.
        second = fit(alone.n // 4, size // 16)
    busy = worked / alone.seconds["train"]
    counts = [[-(-f.n_clusters // task_size(f.n_clusters)), f.n_clusters] for f in (first, second)]
    task, record = nnls(counts, [f.seconds["train"] for f in (first, second)])[0]
    return float(max(busy, 1.0)), float(task), float(record)
