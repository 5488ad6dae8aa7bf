"""The modules that the fork server imports before it starts workers.

A worker is forked from the server and has these modules from its first moment on. Everything else
is imported by the method that needs it: the classes of scikit-learn load no numba.
"""

import contextlib
import importlib
import json
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbench.config import read_yaml, require_option
from kbench.errors import ConfigError
from kbench.run.execution.sandbox import Sandbox

# The environment variable that hands the estimators to the fork server.
ESTIMATORS = "KBENCH_PRELOAD"
# multiprocessing runs the script of the command again in each guard, as its main module.
_IMPORTED_BY_THE_SCRIPT = ("kbench.cli",)
# Only packages whose import starts no thread and runs no code of a user.
_TRUSTED = ("kbench", "sklearn")


def import_common() -> None:
    """Import the modules that every worker uses: NumPy, SciPy, parts of scikit-learn and kbench."""
    import joblib  # noqa: F401
    import scipy.sparse  # noqa: F401
    import threadpoolctl  # noqa: F401

    _postpone("scipy.stats")
    with _hidden("pandas"):
        import sklearn.utils.validation  # noqa: F401

        with contextlib.suppress(ImportError):  # the first fit imports it, since version 1.9
            importlib.import_module("sklearn.callback")
    import kbench.cost
    import kbench.data
    import kbench.run.execution.worker  # noqa: F401


@contextlib.contextmanager
def _hidden(package: str) -> Iterator[None]:
    """Make `import package` raise ImportError for a while, unless it is imported already.

    scikit-learn imports pandas where it is installed, 0.2 s for one helper of its ARFF reader.
    Arrays need none of it, and DataFrames bring pandas themselves.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


def _postpone(package: str) -> None:
    """Let `import package` bind a module that imports the package when it is first used.

    scikit-learn's checks import scipy.stats, 0.35 s, for one function that kbench never calls.
    `importlib.util.LazyLoader` is no help: it imports the package at the second `import` of it.
    """
    if package in sys.modules:
        return
    stand_in = types.ModuleType(package)

    def attribute(name: str) -> Any:
        if sys.modules.get(package) is stand_in:
            del sys.modules[package]
        return getattr(importlib.import_module(package), name)

    vars(stand_in)["__getattr__"] = attribute
    sys.modules[package] = stand_in


def import_estimators(paths: Iterable[str]) -> None:
    """Import the classes of `module:Class` paths, and those of their parts, if they are trusted.

    A failed import is left to the worker, which reports it.
    """
    from kbench.run.planning import registry

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


def preloading_sandbox(estimators: Sequence[str]) -> Sandbox:
    """A sandbox whose fork server imports what every worker uses, and the given classes."""
    return Sandbox(
        [*_IMPORTED_BY_THE_SCRIPT, "kbench.run.execution.preloaded"],
        {ESTIMATORS: json.dumps(list(estimators))},
    )


def worker_sandbox(overrides: Sequence[str]) -> Sandbox:
    """A sandbox whose workers have imported what the methods named by a command need.

    Its fork server imports while the caller goes on to make the plan.
    """
    sandbox = preloading_sandbox(estimators_named(overrides))
    sandbox.prepare()
    return sandbox


def estimators_named(overrides: Sequence[str]) -> list[str]:
    """The `module:Class` paths of the methods that a command line names, read from their files.

    This costs a few milliseconds, so that the fork server imports while Hydra composes. It is a
    guess: a name that does not exist is left out here and reported by the plan, and a worker
    imports the modules that are missing.
    """
    methods: list[str] = []
    for text in overrides:
        key, _, value = text.partition("=")
        if key == "method":
            methods += value.split(",")
    if not methods:
        methods = _methods_of_experiments(overrides)
    paths: dict[str, None] = {}
    for name in methods:
        with contextlib.suppress(ConfigError, OSError):
            paths |= dict.fromkeys(_targets(read_yaml(require_option("method", name))))
    return list(paths)


def _methods_of_experiments(overrides: Sequence[str]) -> list[str]:
    methods: list[str] = []
    for text in overrides:
        key, _, value = text.partition("=")
        for name in value.split(",") if key.lstrip("+") == "experiment" else ():
            with contextlib.suppress(ConfigError, OSError):
                plan = read_yaml(require_option("experiment", name)).get("plan")
                entries = plan.get("methods") if isinstance(plan, Mapping) else None
                methods += [
                    str(next(iter(entry)) if isinstance(entry, Mapping) else entry)
                    for entry in entries or ()
                ]
    return methods


def _targets(config: Mapping[str, Any]) -> Iterator[str]:
    from kbench.run.planning import registry

    estimator = config.get("estimator")
    names = estimator.values() if isinstance(estimator, Mapping) else [estimator]
    for name in names:
        if isinstance(name, str):
            yield registry.target(name, config.get("parts"))
