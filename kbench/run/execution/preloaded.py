"""The import of this module, by the fork server at its start, imports the modules of workers.

A worker is forked from the server and has these modules from its start. Other modules are imported
by the method that needs them, so that scikit-learn's classes do not load numba. The environment
variable `KBENCH_PRELOAD` is a JSON list of targets whose classes are imported, too.
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

from kbench.run.execution.preload import ESTIMATORS_VARIABLE
from kbench.run.planning import registry

# Packages whose import neither starts a thread nor runs code of a user.
_TRUSTED = ("kbench", "sklearn")


def _import_common() -> None:
    """Import the modules of every worker: NumPy, SciPy, parts of scikit-learn and kbench."""
    importlib.import_module("joblib")
    importlib.import_module("scipy.sparse")
    # If a version of scikit-learn needs more of the two packages, this import fails, and the next
    # one imports them.
    with contextlib.suppress(ImportError), _without_pandas_and_statistics():
        importlib.import_module("sklearn.utils.fixes")
    validation = importlib.import_module("sklearn.utils.validation")
    with contextlib.suppress(ImportError):  # from version 1.9 on, the first fit imports it
        importlib.import_module("sklearn.callback")
    importlib.import_module("kbench.cost")
    importlib.import_module("kbench.data")
    # When scikit-learn checks its first array, it searches the metadata of all installed packages
    # for plug-ins of data frames. Here it does so once for all workers.
    base = importlib.import_module("sklearn.base")
    validation.validate_data(base.BaseEstimator(), [[0.0]])


@contextlib.contextmanager
def _without_pandas_and_statistics() -> Iterator[None]:
    """Let `import pandas` fail and `import scipy.stats` do nothing in a `with` block.

    `sklearn.utils.fixes` imports both, which would double the start of the fork server. Only two
    functions of scikit-learn need the packages, and import them when they are called.
    """
    substitutes = {
        name: value
        for name, value in (("pandas", None), ("scipy.stats", types.ModuleType("scipy.stats")))
        if name not in sys.modules
    }
    sys.modules.update(substitutes)  # type: ignore[arg-type]  # None blocks an import
    try:
        yield
    finally:
        for name in substitutes:
            sys.modules.pop(name, None)


def _import_estimators(targets: Iterable[str]) -> None:
    """Import the classes of targets whose packages are all in `_TRUSTED`.

    A failed import is ignored, because the worker repeats it and reports the error.
    """
    for target in targets:
        modules = re.findall(r"([\w.]+):", target)
        if all(module.partition(".")[0] in _TRUSTED for module in modules):
            with contextlib.suppress(Exception):
                registry.load(target)
    if "numba" in sys.modules:
        _fill_tables_of_numba()


def _fill_tables_of_numba() -> None:
    """Let numba fill its tables of functions for this processor.

    Otherwise the first compiled function of every worker would do so, which takes about 0.1 s.
    """
    from numba.core.registry import cpu_target

    cpu_target.target_context.refresh()
    cpu_target.typing_context.refresh()


# Garbage collection is off during imports, because the objects that imports create stay.
# `gc.freeze` then excludes these objects from the workers' collections.
gc.disable()
_import_common()
worker = importlib.import_module("kbench.run.execution.worker")
_import_estimators(json.loads(os.environ.pop(ESTIMATORS_VARIABLE, "[]")))
worker.thread_pools()
gc.freeze()
gc.enable()
