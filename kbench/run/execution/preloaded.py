"""Importing this module imports what workers use; the fork server does so at its start.

A worker is forked from the server and has these modules from its first moment on. Everything else
is imported by the method that needs it: the classes of scikit-learn load no numba. The environment
variable `ESTIMATORS` names estimators, as JSON, whose classes are imported as well.
"""

import contextlib
import gc
import importlib
import json
import os
import re
import sys
import types
from collections.abc import Iterable, Iterator

from kbench.run.execution.preload import ESTIMATORS
from kbench.run.planning import registry

# Only packages whose import starts no thread and runs no code of a user.
_TRUSTED = ("kbench", "sklearn")


def _import_common() -> None:
    """Import the modules that every worker uses: NumPy, SciPy, parts of scikit-learn and kbench."""
    importlib.import_module("joblib")
    importlib.import_module("scipy.sparse")
    # A scikit-learn that needs more of the two packages raises ImportError here, and imports them
    # in the next line.
    with contextlib.suppress(ImportError), _without_pandas_and_statistics():
        importlib.import_module("sklearn.utils.fixes")
    validation = importlib.import_module("sklearn.utils.validation")
    with contextlib.suppress(ImportError):  # the first fit imports it, since version 1.9
        importlib.import_module("sklearn.callback")
    importlib.import_module("kbench.cost")
    importlib.import_module("kbench.data")
    # The first array that scikit-learn checks makes it look through the metadata of all installed
    # packages for plug-ins of data frames: 7 ms, which every worker would spend.
    base = importlib.import_module("sklearn.base")
    validation.validate_data(base.BaseEstimator(), [[0.0]])


@contextlib.contextmanager
def _without_pandas_and_statistics() -> Iterator[None]:
    """Let `import pandas` fail and `import scipy.stats` do nothing, in this block.

    `sklearn.utils.fixes` imports both, which is half of the time that a fork server takes to start.
    scikit-learn needs them in two functions only, and these import them when they are called, after
    the block.
    """
    replaced = {
        name: value
        for name, value in (("pandas", None), ("scipy.stats", types.ModuleType("scipy.stats")))
        if name not in sys.modules
    }
    sys.modules.update(replaced)  # type: ignore[arg-type]  # None blocks an import
    try:
        yield
    finally:
        for name in replaced:
            sys.modules.pop(name, None)


def _import_estimators(paths: Iterable[str]) -> None:
    """Import the classes of `module:Class` paths, and those of their parts, if they are trusted.

    A failed import is left to the worker, which reports it.
    """
    for path in paths:
        modules = re.findall(r"([\w.]+):", path)
        if all(module.partition(".")[0] in _TRUSTED for module in modules):
            with contextlib.suppress(Exception):
                registry.load(path)
    if "numba" in sys.modules:
        _fill_tables_of_numba()


def _fill_tables_of_numba() -> None:
    """Let numba enter its functions for this processor in its tables, which takes 0.1 s.

    The first compiled function that a process loads or compiles does so otherwise, in every worker.
    """
    from numba.core.registry import cpu_target

    cpu_target.target_context.refresh()
    cpu_target.typing_context.refresh()


# Imports create objects that stay, so garbage collection is off while they run: it would take a
# tenth of their time. `gc.freeze` then leaves these objects out of the workers' collections.
gc.disable()
_import_common()
worker = importlib.import_module("kbench.run.execution.worker")
_import_estimators(json.loads(os.environ.pop(ESTIMATORS, "[]")))
worker.thread_pools()
gc.freeze()
gc.enable()
