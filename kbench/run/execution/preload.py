"""Make sandboxes whose fork server imports the modules that a command's methods need.

The fork server imports `kbench.run.execution.preloaded` while the command makes its plan.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbench.config import read_yaml, require_option
from kbench.errors import ConfigError
from kbench.run.execution.sandbox import Sandbox
from kbench.run.planning import registry

# Name of the environment variable by which the fork server gets the estimators' targets.
ESTIMATORS_VARIABLE = "KBENCH_PRELOAD"


def preloading_sandbox(estimators: Sequence[str]) -> Sandbox:
    """A sandbox whose fork server imports the modules of every worker and these classes."""
    environment = {ESTIMATORS_VARIABLE: json.dumps(list(estimators))}
    return Sandbox(["kbench.run.execution.preloaded"], environment)


def worker_sandbox(overrides: Sequence[str]) -> Sandbox:
    """A sandbox for the methods that a command names, whose fork server has been started."""
    sandbox = preloading_sandbox(estimators_named(overrides))
    sandbox.prepare()
    return sandbox


def estimators_named(overrides: Sequence[str]) -> list[str]:
    """The targets of the methods that a command line names, read from the methods' files.

    The list need not be complete: the plan reports a name that does not exist, and a worker imports
    modules that are missing.
    """
    names_by_group: dict[str, list[str]] = {"method": [], "experiment": []}
    for text in overrides:
        key, _, value = text.lstrip("+").partition("=")
        if key in names_by_group:
            names_by_group[key] += value.split(",")
    methods = names_by_group["method"] or [
        method for name in names_by_group["experiment"] for method in _methods_of(name)
    ]
    targets: dict[str, None] = {}
    for name in methods:
        with contextlib.suppress(ConfigError, OSError):
            targets |= dict.fromkeys(_targets(read_yaml(require_option("method", name))))
    return list(targets)


def _methods_of(experiment: str) -> list[str]:
    with contextlib.suppress(ConfigError, OSError):
        plan = read_yaml(require_option("experiment", experiment)).get("plan")
        entries = plan.get("methods") if isinstance(plan, Mapping) else None
        return [
            str(next(iter(entry)) if isinstance(entry, Mapping) else entry)
            for entry in entries or ()
        ]
    return []


def _targets(config: Mapping[str, Any]) -> Iterator[str]:
    estimator = config.get("estimator")
    names = estimator.values() if isinstance(estimator, Mapping) else [estimator]
    for name in names:
        if isinstance(name, str):
            yield registry.target(name, config.get("parts"))
