"""`kbench plan ... scale.rows=N`: simulates a fit to N rows and prints what it would take.

A method whose file says `meta.scale: module:Class` can be simulated. The class measures the costs
of its stages on rows of the data set and simulates fits; its costs are kept in results_dir/_scale,
by environment, method, parameters and data, and are measured again with rerun=all.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from kbench.config import composer, nearest, options, read_yaml
from kbench.errors import ConfigError, KbenchError
from kbench.files import atomic_file

if TYPE_CHECKING:
    from kbench.run.planning.plan import Plan, Run

FOLDER = "_scale"  # of results_dir
PREFIX = "scale."
# Key -> default; None is a number that has to be given, or that this machine has.
KEYS: dict[str, float | None] = {
    "rows": None,
    "test_rows": 1e6,
    "cluster_rows": 4000,
    "machines": 1,
    "workers": None,
    "bandwidth_mb": 1250,
    "disk_mb": 500,
}
_WHOLE = ("rows", "test_rows", "cluster_rows", "machines", "workers")


class Costs(Protocol):
    """What a class that `meta.scale` names has: a dataclass of numbers, beside a class `Machines`
    with the fields that `simulate` below sets.
    """

    cores: int  # of this machine
    ram: float  # bytes of its memory

    @classmethod
    def measure(cls, model: Any, X: Any, y: Any, **options: Any) -> Self:
        """Measure on rows X, y; options are memory_mb, cluster_rows and cores."""

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        """The costs that `dataclasses.asdict` made a dictionary of."""

    def simulate(self, n: float, on: Any, test_rows: float) -> Any:
        """A fit of n rows on `Machines`: n_clusters, seconds, model_bytes, stages and notes."""


def simulate(overrides: Sequence[str]) -> int:
    """Print the stages for each number of rows; exit code 0."""
    sizes, values = _values([word for word in overrides if word.startswith(PREFIX)])
    words = [word for word in overrides if not word.startswith(PREFIX)]
    costs = _costs(words, int(values["cluster_rows"] or 0))
    module = import_module(type(costs).__module__)
    on = module.Machines(
        machines=int(values["machines"] or 1),
        workers=int(values["workers"] or costs.cores),
        cores=costs.cores,
        link=1e6 * (values["bandwidth_mb"] or 0),
        disk=1e6 * (values["disk_mb"] or 0),
        memory=costs.ram,
    )
    for n in sizes:
        found = costs.simulate(n, on, values["test_rows"] or 0)
        print(
            f"{n:,.0f} rows, {found.n_clusters:,} clusters, {on.machines:,} machines with "
            f"{on.workers} workers: {_time(found.seconds)}, a model of "
            f"{found.model_bytes / 1e6:,.0f} MB"
        )
        print(f"  {'':8} {'seconds':>12} {'CPU s':>12} {'MiB':>8} {'network MB':>12}  bound by")
        for stage in found.stages:
            print(
                f"  {stage.name:8} {stage.seconds:12,.1f} {stage.cpu_s:12,.1f} "
                f"{stage.memory / 2**20:8,.0f} {stage.network / 1e6:12,.0f}  {stage.bound}"
            )
        for note in found.notes:
            print(f"  {note}")
    return 0


def _values(words: Sequence[str]) -> tuple[list[float], dict[str, float | None]]:
    """The numbers of rows, and the other keys with their defaults."""
    values = dict(KEYS)
    sizes: list[float] = []
    for word in words:
        key, _, text = word.removeprefix(PREFIX).partition("=")
        if key not in KEYS:
            known = ", ".join(PREFIX + name for name in KEYS)
            raise ConfigError(f"no key is called {PREFIX}{key}{nearest(key, KEYS)}; it is {known}")
        if key == "rows":
            sizes = [_number(key, part) for part in text.split(",")]
        else:
            values[key] = _number(key, text)
    if not sizes:
        raise ConfigError("scale.rows is missing: the numbers of rows, as in scale.rows=1e8,1e9")
    return sizes, values


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    least = 0 if key == "test_rows" else 1
    if not least <= value < float("inf") or (key in _WHOLE and value != int(value)):
        kind = "whole number" if key in _WHOLE else "number"
        raise ConfigError(f"{PREFIX}{key} is {text!r}, should be a {kind} from {least}, as 1e9")
    return value


def _costs(words: Sequence[str], cluster_rows: int) -> Costs:
    """The stored costs of the one run of a command, or those that are measured now."""
    from kbench.run.execution.runner import obtain_in
    from kbench.run.execution.sandbox import Sandbox
    from kbench.run.planning.plan import make_plan
    from kbench.run.results.environment import provenance

    sandbox = Sandbox()
    with composer() as hydra:
        plan = make_plan(hydra, list(words), obtain=obtain_in(sandbox))
    if len(plan.runs) != 1:
        raise ConfigError(
            "; ".join([*plan.absent.values(), *plan.dropped])
            or f"scale.rows simulates one run, this command has {len(plan.runs)}"
        )
    (run,) = plan.runs
    kind = _class_of(run.method)
    here = provenance()
    about = {"run": run.key, "cluster_rows": cluster_rows, "environment": here.environment_id}
    name = sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    path = Path(plan.settings.results_dir) / FOLDER / f"{name}.json"
    if path.exists() and plan.settings.rerun != "all":
        print(f"costs from {path}")
        return kind.of(json.loads(path.read_text())["costs"])
    costs = _measure(kind, plan, run, cluster_rows)
    stored = about | {
        "command": run.command,
        "version": here.version,
        "commit": here.commit,
        "machine": dict(here.environment),
        "costs": asdict(costs),
    }
    with atomic_file(path) as file:
        file.write(json.dumps(stored, indent=1).encode())
    print(f"costs measured on {run.dataset}, kept in {path}")
    return costs


def _class_of(method: str) -> type[Costs]:
    files = {name: read_yaml(path) for name, path in options("method").items()}
    named = {name: file["meta"]["scale"] for name, file in files.items() if "scale" in file["meta"]}
    if method not in named:
        raise ConfigError(
            f"no costs are known of method={method}; scale.rows simulates {', '.join(named)}"
        )
    module, _, name = named[method].partition(":")
    return getattr(import_module(module), name)


def _measure(kind: type[Costs], plan: "Plan", run: "Run", cluster_rows: int) -> Any:
    from kbench.data import open_prepared
    from kbench.run.execution.chunked import memory_for_rows
    from kbench.run.execution.worker import set_threads
    from kbench.run.planning import registry

    task = plan.task(run)
    set_threads(1, None)
    data = open_prepared(Path(task.prepared))
    if not hasattr(data.X_train, "nbytes"):
        raise KbenchError(f"the rows of {run.dataset} are sparse; dense ones can be simulated")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    model = registry.build(task.estimator, task.params, run.seed)
    options: Mapping[str, Any] = {"cluster_rows": cluster_rows, "cores": cores or 1}
    return kind.measure(
        model, data.X_train, data.y_train, memory_mb=memory_for_rows(task.memory_mb), **options
    )


def _time(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"
