"""Fill numba's cache: fit every method of kbench on a few rows, as a worker does.

A fit compiles what its kind of data needs, once on a machine. `kbench doctor --compile` does so in
advance for dense float32 and float64 rows of each kind of problem.
"""

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.compiling import CompileClock
from kbench.config import Composer, Limits, composer, options
from kbench.errors import ConfigError, KbenchError

# A data set of scikit-learn's for each kind of problem: its config gives the methods' parameters.
_DATASETS = {"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}
# Rows of a fit: enough for a few clusters and leaves, few enough for a fit of milliseconds. The
# number of features is a square, as methods for images need it.
_ROWS, _FEATURES = 256, 64


def compile_methods(show_line: Callable[[str], None]) -> bool:
    """Fit every installed method of kbench; returns whether numba's cache keeps the result."""
    from kbench.run.sandbox import Sandbox

    folder = cache_folder()
    writable = os.access(folder, os.W_OK | os.X_OK)
    if not writable:
        show_line(f"  NOT WRITABLE: {folder}; set NUMBA_CACHE_DIR to a folder that is")
    sandbox = Sandbox()
    with composer() as hydra:
        for name in options("method"):
            for task, path, params in _problems(hydra, name):
                order = {"path": path, "params": params, "task": task}
                limits = Limits(wall_s=None)
                outcome = sandbox.start(_fit_both, order, limits).outcome()
                row = outcome.result.get("row") or {}
                what = f"compiled {row['compiled_s']:.1f} s" if row else outcome.message
                show_line(f"  {name:24} {task:10} {what}")
    return writable


def cache_folder() -> Path:
    """The folder in which numba keeps compiled code of kbench, or would make its own."""
    from numba.core import config

    import kbench

    return Path(getattr(config, "CACHE_DIR", "") or kbench.__path__[0])


def _problems(hydra: Composer, name: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(task, class, parameters) of each kind of problem that a method of kbench solves."""
    from kbench.run import registry

    problems = []
    for task, dataset in _DATASETS.items():
        try:
            config = hydra.compose([f"method={name}", f"dataset={dataset}"])["method"]
        except ConfigError as error:
            print(f"  {name}: {error}", file=sys.stderr)
            return []
        meta = config.get("meta") or {}
        estimator = config["estimator"]
        if isinstance(estimator, Mapping):
            estimator = estimator.get(task)
        if estimator is None or task not in (meta.get("tasks") or _DATASETS):
            continue
        try:
            path = registry.target(str(estimator), config.get("parts"))
        except ConfigError as error:
            print(f"  {name}: {error}", file=sys.stderr)
            continue
        if path.startswith("kbench."):
            params = {k: v for k, v in config.items() if k not in registry.RESERVED}
            problems.append((task, path, params | (meta.get("warmup") or {})))
    return problems


def _fit_both(order: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    """In a worker: fit and predict in both precisions, on arrays that are read-only as a run's."""
    from kbench.run import registry
    from kbench.run.worker import set_threads

    set_threads(1, None)
    clock = CompileClock(lambda on: send({"event": "compiling", "on": on}))
    params = order["params"] | {"calibration": None}
    for dtype in (np.float32, np.float64):
        X, y = _rows(order["task"], dtype)
        try:
            estimator = registry.build(order["path"], params, 0)
            clock.listen()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.fit(X, y)
                estimator.predict(X)
        except KbenchError as error:
            send({"event": "result", "status": "unavailable", "message": str(error)})
            return
        except Exception as error:
            message = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
            send({"event": "result", "status": "error", "message": message})
            return
    send({"event": "result", "status": "ok", "row": {"compiled_s": clock.wall_s}})


def _rows(task: str, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X: np.ndarray = rng.random((_ROWS, _FEATURES)).astype(dtype)
    y = X[:, 0] + X[:, 1]
    if task != "regression":
        n_classes = 2 if task == "binary" else 3
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
        y = np.where(y == 0, -1, 1) if task == "binary" else y
    X.flags.writeable = y.flags.writeable = False
    return X, y
