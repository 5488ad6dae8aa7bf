"""Fill numba's cache: fit methods of kbench on a few rows, as a worker does.

The first fit on a machine compiles code for its kind of data. `kbench doctor --compile` compiles
this code in advance for dense float32 and float64 rows of each kind of problem.
"""

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from kbench.compiling import CompileClock
from kbench.config import Composer, composer, options, require_option
from kbench.errors import ConfigError, KbenchError, quoted, with_type
from kbench.settings import Limits

# Kind of problem -> a data set of scikit-learn, whose config gives the methods' parameters.
_DATASETS = {
    "binary": "breast_cancer",
    "multiclass": "digits",
    "regression": "diabetes",
    "outlier": "breast_cancer",
}
# Seconds between two updates of the line that shows what is being compiled. Set by hand.
_TICK_S = 1.0
# Numbers of rows and features of a fit. The rows suffice for a few clusters and leaves; a fit takes
# milliseconds. Methods for images need a square number of features. Set by hand.
_ROWS, _FEATURES = 256, 64


def compile_methods(names: Sequence[str], show: Callable[[str, str], None]) -> bool:
    """Fit methods of kbench on few rows.

    names : names of methods; empty for all methods of kbench that are installed.
    show : function (line, progress) that prints `line` unless it is "", and shows `progress` below
        until the next call. It is called at least every `_TICK_S` seconds.

    Returns False, and compiles nothing, if numba cannot write its cache, otherwise True.

    Raises ConfigError: a name does not belong to a method.
    """
    from kbench.run.execution.preload import preloading_sandbox

    folder = cache_folder()
    existing = next(p for p in [folder.absolute(), *folder.absolute().parents] if p.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        show(f"  NOT WRITABLE: {existing}; set NUMBA_CACHE_DIR to a writable folder", "")
        return False
    for name in names:
        require_option("method", name)
    # Importing one estimator of kbench also imports numba, which all estimators need.
    sandbox = preloading_sandbox(["kbench.methods:KernelSVC"])
    sandbox.prepare()
    began = time.monotonic()
    with composer() as hydra:
        problems = [
            (name, *problem)
            for name in names or options("method")
            for problem in _problems(hydra, name)
        ]
    for number, (name, task, target, params) in enumerate(problems, 1):
        request = {"target": target, "params": params, "task": task}
        job = sandbox.start(_fit_in_both_precisions, request, Limits(wall_s=None))
        outcome = None
        while outcome is None:
            if wait([job.connection], timeout=_TICK_S):
                outcome = job.news()
            else:
                seconds = time.monotonic() - began
                show("", f"{number}/{len(problems)} {name}, {task}: compiling, {seconds:.0f} s")
        row = outcome.result.get("row") or {}
        text = f"compiled {row['compiled_s']:.1f} s" if row else outcome.message
        show(f"  {name:24} {task:10} {text}", "")
    show(f"{len(problems)} problems in {time.monotonic() - began:.0f} s", "")
    return True


@contextmanager
def progress_lines() -> Iterator[Callable[[str, str], None]]:
    """A function `show` for `compile_methods`; only a terminal shows the progress."""
    is_terminal = sys.stdout.isatty()
    erase = "\r\x1b[K" if is_terminal else ""

    def show(line: str, progress: str) -> None:
        text = f"{line}\n" if line else ""
        print(f"{erase}{text}{progress if is_terminal else ''}", end="", flush=True)

    try:
        yield show
    finally:
        print(erase, end="", flush=True)


def cache_folder() -> Path:
    """The folder in whose folders numba keeps compiled code of kbench: NUMBA_CACHE_DIR; otherwise
    kbench's own, or the user's cache folder if kbench's cannot be written."""
    from numba.core import config

    if named := getattr(config, "CACHE_DIR", ""):
        return Path(named)
    import kbench
    from kbench.data.formats import libsvm_bytes  # any module with compiled functions would do

    compiled: Any = libsvm_bytes.count  # mypy does not know attributes of compiled functions
    package, folder = Path(kbench.__path__[0]), Path(compiled.stats.cache_path)
    return package if folder.is_relative_to(package) else folder.parent


def _problems(hydra: Composer, name: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(task, `module:Class`, parameters) of each kind of problem that a method of kbench solves."""
    from kbench.run.planning import registry
    from kbench.run.planning.method_file import MethodFile

    problems: list[tuple[str, str, dict[str, Any]]] = []
    for task, dataset in _DATASETS.items():
        try:
            config = hydra.compose([f"method={name}", f"dataset={dataset}"])["method"]
            method = MethodFile.of(config, name)
            tasks = method.estimator if isinstance(method.estimator, Mapping) else _DATASETS
            if task not in tasks or task not in (method.meta.get("tasks") or _DATASETS):
                continue
            target = registry.target(method.estimator_for(task), method.parts)
        except ConfigError as error:
            print(f"  {name}: {error}", file=sys.stderr)
            return problems
        if target.startswith("kbench."):
            params = {**method.params, **(method.meta.get("warmup") or {})}
            problems.append((task, target, params))
    return problems


def _fit_in_both_precisions(
    request: dict[str, Any], send: Callable[[dict[str, Any]], None]
) -> None:
    """Fit and predict in both precisions in a worker; arrays are read-only like those of a run."""
    from kbench.run.execution.worker import set_threads
    from kbench.run.planning import registry

    set_threads(1, None)
    clock = CompileClock(lambda is_compiling: send({"event": "compiling", "on": is_compiling}))
    params = request["params"] | {"calibration": None}
    for dtype in (np.float32, np.float64):
        X, y = _rows(request["task"], dtype)
        try:
            estimator = registry.build(request["target"], params, 0)
            clock.listen()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.fit(X, y)
                estimator.predict(X)
        except KbenchError as error:
            send({"event": "result", "status": "unavailable", "message": str(error)})
            return
        except Exception as error:
            message = quoted(with_type(error))
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
