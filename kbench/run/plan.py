"""From a command to the list of its runs: compose once per (method, data set), expand on dicts.

The grid, the seeds and the sweeps over a method's parameters are expanded without Hydra, so that
a plan of ten thousand runs takes seconds. A run's key is a hash of all that its outcome depends on:
method, parameters, data (checksum, scaling, split), seed, metrics and limits; not host, paths,
threads or order.
"""

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kbench import presets
from kbench.config import Composer, Settings, flatten, nearest, settings
from kbench.errors import ConfigError, DataError, DataNotFoundError
from kbench.run.command import Command, canonical, hydra_value
from kbench.run.request import Request, checked_seed, pairs, read_request
from kbench.run.tuned import NONE, Tuned, find_tuned, set_of, tuned_by

KEY_VERSION = 2  # raised when the metrics change, or anything else that is no config key


@dataclass(frozen=True)
class Run:
    """One run, fully resolved.

    `key` identifies its outcome, `command` reproduces it, `label` tells it from the others of its
    plan.
    """

    key: str
    label: str
    method: str
    estimator: str  # a target of kbench.run.registry
    dataset: str
    variant: str | None
    task: str
    data_sha256: str
    seed: int
    params: Mapping[str, Any]
    warmup: Mapping[str, Any]
    dataset_config: Mapping[str, Any]
    limits: Mapping[str, Any]
    threads: int
    command: str
    tuned: str | None  # the tuned file that set some of the parameters
    tuned_sha256: str | None
    path: tuple[str, ...] = ()  # parameters along which a warm start re-uses work

    @property
    def path_id(self) -> str | None:
        """The same for runs that differ only along the path; None where there is none."""
        if not self.path or {"calibration", "metric"} & set(self.params):
            return None
        rest = {key: value for key, value in self.params.items() if key not in self.path}
        return canonical([self.method, rest, self.seed, self.dataset_config, self.threads])


@dataclass
class Plan:
    """What a command asks for: runs in order, and what is left out with the reason why."""

    settings: Settings
    runs: list[Run] = field(default_factory=list)
    estimators: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # of all its runs
    tuned: list[str] = field(default_factory=list)  # tuned files that apply, and warnings of them
    left_out: dict[str, list[str]] = field(default_factory=dict)  # reason -> what
    absent: dict[str, str] = field(default_factory=dict)  # data set -> message
    searches: list[str] = field(default_factory=list)  # experiments whose runs are candidates
    prepared: dict[str, Path] = field(default_factory=dict)  # canonical config -> folder
    fingerprints: dict[str, str | None] = field(default_factory=dict)  # likewise

    def drop(self, what: str, reason: str) -> None:
        """Note that a method, or a key of the grid, is left out."""
        subjects = self.left_out.setdefault(reason, [])
        if what not in subjects:
            subjects.append(what)

    def task(self, run: Run) -> dict[str, Any]:
        """What the worker has to know of a run; its data have been prepared."""
        return {
            "estimator": run.estimator,
            "params": dict(run.params),
            "warmup": dict(run.warmup),
            "seed": run.seed,
            "task": run.task,
            "prepared": str(self.prepared[canonical(run.dataset_config)]),
            "dataset": dict(run.dataset_config),
            "data_sha256": run.data_sha256,
            "datasets_dir": self.settings.datasets_dir,
            "download": self.settings.download,
            "holdout": run.dataset_config.get("holdout"),
            "threads": run.threads,
            "about": {
                "key": run.key,
                "method": run.method,
                "dataset": run.dataset,
                "variant": run.variant,
                "task": run.task,
                "seed": run.seed,
                "params": dict(run.params),
                "data_sha256": run.data_sha256,
                "command": run.command,
            },
        }

    @property
    def dropped(self) -> list[str]:
        """What is left out, one line for each reason."""
        return [f"{', '.join(what)}: {reason}" for reason, what in self.left_out.items()]


def make_plan(
    composer: Composer,
    overrides: Sequence[str],
    *,
    multirun: bool = False,
    obtain: bool = False,
) -> Plan:
    """Expand a command into its runs.

    Parameters
    ----------
    overrides : Hydra overrides as they were typed.
    multirun : whether `a=1,2` sweeps.
    obtain : download and prepare the data sets first, so that every run has its checksum;
        otherwise data that are not at hand are listed in `absent`.

    Raises
    ------
    ConfigError
        A name, key or value that does not exist or does not fit.
    DataError
        A raw file is malformed (with `obtain`).
    """
    request = read_request(composer, overrides, multirun=multirun)
    plan: Plan | None = None
    seen: set[str] = set()
    unused = set(request.params)
    for experiment, composed in itertools.product(request.experiments, request.composed):
        chosen = [*composed, *([f"experiment={experiment}"] if experiment else [])]
        recipe = composer.compose(chosen).get("plan") or {} if experiment else {}
        of = set_of(recipe)
        for pair in pairs(request, experiment, recipe):
            method, dataset, here = pair.method, pair.dataset, [*pair.overrides, *chosen]
            here = [*tuned_by(of, method, dataset, chosen), *here]
            config = composer.compose([f"method={method}", f"dataset={dataset}", *here])
            config["grid"] = {**(config["grid"] or {}), **pair.grid}
            if plan is None:
                plan = Plan(settings(config))
            if recipe.get("tune") and experiment not in plan.searches:
                plan.searches.append(str(experiment))
            unused -= set(config["method"])
            tuned = find_tuned(method, dataset, here)
            bare = config
            if here or tuned:
                bare = composer.compose([f"method={method}", f"dataset={dataset}", NONE])
            runs = _expand(plan, config, bare, here, request, recipe, tuned, obtain=obtain)
            for run in runs:
                if run.key not in seen:
                    seen.add(run.key)
                    plan.runs.append(run)
    if plan is None:
        raise ConfigError("nothing to run: name a method, as in `kbench method=svc dataset=digits`")
    if unused:
        name = sorted(unused)[0]
        raise ConfigError(f"no method of this command has a parameter {name!r}{_hint(name, plan)}")
    return plan


def _hint(name: str, plan: Plan) -> str:
    return nearest(name, {key for run in plan.runs for key in run.params})


def _expand(
    plan: Plan,
    config: dict[str, Any],
    bare: dict[str, Any],
    chosen: list[str],
    request: Request,
    recipe: Mapping[str, Any],
    tuned: Tuned | None,
    *,
    obtain: bool,
) -> Iterator[Run]:
    """The runs of one (method, data set): grid x sweeps x seeds."""
    from kbench.data import influence
    from kbench.run import registry

    method = dict(config["method"])
    name, meta = method.get("name"), method.get("meta") or {}
    if "estimator" not in method or name is None:
        raise ConfigError(f"method {name or config['method']} names no estimator: and name:")
    if not isinstance(meta, Mapping):
        raise ConfigError(
            f"method {name}: meta is {meta!r}, should be a mapping of about, tasks ..."
        )
    dataset = _dataset(config["dataset"], chosen)
    tasks = meta.get("tasks")
    if tasks and dataset["task"] not in tasks:
        plan.drop(name, f"not for {dataset['task']}, which {dataset['name']} is")
        return
    fixed = {key: v for key, v in method.items() if key not in registry.RESERVED}
    if tuned is not None:
        tuned.check(name, bare["method"])
    grid = list(_combinations(plan, name, fixed, config.get("grid") or {}, request.params))
    estimator = method["estimator"]
    if isinstance(estimator, Mapping):
        if dataset["task"] not in estimator:
            raise ConfigError(f"method {name}: estimator names no class for {dataset['task']}")
        estimator = estimator[dataset["task"]]
    path = registry.target(estimator, method.get("parts"))
    plan.estimators += [(path, fixed | varied) for varied in grid]
    data_sha256 = _fingerprint(plan, dataset, obtain=obtain)
    if data_sha256 is None:
        return
    seeds = request.seeds or recipe.get("seeds") or [config.get("seed", 0)]
    limits = asdict(settings(config).limits)
    threads = limits.pop("threads")
    command = Command(name, config, bare, untuned=tuned is not None or NONE in chosen)
    form = _form(dataset, bare["dataset"])
    data_name = f"{dataset['name']} ({form})" if form else dataset["name"]
    used = _undecided(tuned, fixed, grid[0]) if tuned and grid else []
    if tuned is not None and used:
        lines = tuned.notes(used, path, data_sha256, form)
        plan.tuned += [line for line in lines if line not in plan.tuned]
    identity = {
        "version": KEY_VERSION,
        "method": name,
        "estimator": estimator,
        "dataset": {k: v for k, v in influence(dataset).items() if k != "facts"},
        "data": data_sha256,
        "limits": {k: limits[k] for k in ("wall_s", "cpu_s", "memory_mb")},
    }
    # The parts that the method's file names are known by the entry point's name.
    if method.get("parts") != bare["method"].get("parts"):
        identity["parts"] = method.get("parts")
    head = canonical(identity)
    along = _path(name, meta, fixed)
    for varied in grid:
        typed = fixed | varied
        for wrapper in registry.WRAPPERS:
            if typed.get(wrapper) is None:
                typed.pop(wrapper, None)
        params = _effective(name, meta, typed)
        words = [f"{key}={hydra_value(value)}" for key, value in varied.items()]
        body = canonical(params)
        for seed in seeds:
            digest = hashlib.sha256(f"{head}{body}{checked_seed(seed)}".encode()).hexdigest()
            yield Run(
                key=digest[:32],
                label=" ".join([f"{name} on {data_name}", *words, f"seed {seed}"]),
                method=name,
                estimator=path,
                dataset=dataset["name"],
                variant=form,
                task=dataset["task"],
                data_sha256=data_sha256,
                seed=seed,
                params=params,
                warmup=meta.get("warmup") or {},
                dataset_config=dataset,
                limits=limits,
                threads=threads,
                command=command.text(typed, seed),
                tuned=tuned.path.name if tuned and used else None,
                tuned_sha256=tuned.sha256 if tuned and used else None,
                path=along,
            )


def _effective(name: str, meta: Mapping[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the values of the method's preset in place of null (`meta.presets`)."""
    table = meta.get("presets")
    if table is None:
        return params
    if table not in presets.TABLES:
        raise ConfigError(
            f"method {name}: meta.presets is {table!r}, should be one of "
            f"{', '.join(presets.TABLES)}{nearest(str(table), presets.TABLES)}"
        )
    try:
        return params | presets.resolve(params.get("preset"), presets.TABLES[table], params)
    except ValueError as error:
        raise ConfigError(f"method {name}: {error}") from None


def _path(name: str, meta: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[str, ...]:
    """`meta.path` of a method's file."""
    path = meta.get("path")
    if path is None:
        return ()
    if not isinstance(path, list) or not {"warm_start", *path} <= set(params):
        raise ConfigError(
            f"method {name}: meta.path is {path!r}, should be a list of parameters of the method, "
            "which needs warm_start as well"
        )
    return tuple(path)


def _undecided(tuned: Tuned, fixed: Mapping[str, Any], varied: Mapping[str, Any]) -> list[str]:
    """Parameters of a tuned file that neither a grid nor the command line decides."""
    return [
        name
        for name, value in tuned.params.items()
        if name in fixed and name not in varied and canonical(fixed[name]) == canonical(value)
    ]


def _combinations(
    plan: Plan,
    name: str,
    fixed: Mapping[str, Any],
    grid: Mapping[str, Any],
    swept: Mapping[str, list[Any]],
) -> Iterator[dict[str, Any]]:
    """Every combination of the grid and of the sweeps, of the parameters that the method has."""
    axes: dict[str, list[Any]] = {}
    for source, wanted in (("grid", grid), ("sweep", swept)):
        for key, values in wanted.items():
            if key in fixed:
                axes[key] = list(values) if isinstance(values, (list, tuple)) else [values]
            else:
                plan.drop(key, f"{source} dropped for {name}, which has no such parameter")
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _dataset(config: dict[str, Any], chosen: list[str]) -> dict[str, Any]:
    """The checked config of the data set: its variant's keys, and over them the command line's."""
    from kbench.data import check_config, with_variant

    merged = with_variant(config)
    for text in chosen:
        path = text.partition("=")[0].lstrip("+~").split(".")
        if path[0] == "dataset" and len(path) > 1 and path[1] not in ("variant", "variants"):
            *groups, last = path[1:]
            source, target = config, merged
            for group in groups:
                source, target = source[group], target[group]
            target[last] = source[last]
    return check_config(merged)


def _form(dataset: dict[str, Any], bare: dict[str, Any]) -> str | None:
    """What tells this form of a data set from its default one: the variant, and changed keys."""
    from kbench.data import influence, with_variant

    plain = flatten(influence(with_variant(bare | {"variant": dataset.get("variant")})))
    changed = [
        f"{key}={hydra_value(value)}"
        for key, value in flatten(influence(dataset)).items()
        if plain.get(key) != value and key.partition(".")[0] not in ("name", "task", "facts")
    ]
    words = [dataset["variant"]] if dataset.get("variant") else []
    return ",".join(words + changed) or None


def _fingerprint(plan: Plan, dataset: dict[str, Any], *, obtain: bool) -> str | None:
    """The data set's checksum, once per plan; None, with a note in `absent`, where it has none."""
    from kbench.data import Folders, fingerprint, prepare

    known = canonical(dataset)
    if known in plan.fingerprints:
        return plan.fingerprints[known]
    folders = Folders.from_environment(plan.settings.datasets_dir)
    plan.fingerprints[known] = None
    try:
        if obtain:
            plan.prepared[known] = prepare(dataset, folders, download=plan.settings.download)
        plan.fingerprints[known] = fingerprint(dataset, folders)
    except DataNotFoundError as error:
        plan.absent[dataset["name"]] = str(error)
    except DataError as error:
        if obtain:
            raise
        plan.absent[dataset["name"]] = str(error)
    return plan.fingerprints[known]
