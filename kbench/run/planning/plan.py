"""The plan of a command: the list of its runs.

Hydra composes a config once for each (method, data set). The grid, the seeds and the sweeps over a
method's parameters are expanded without Hydra, which would take far longer for each run. A run's
key is a hash of everything its outcome depends on: method, parameters, data (checksum, scaling,
split), seed, limits and `KEY_VERSION`. Host, paths, threads, order and added scores are not in it.
"""

import copy
import hashlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kbench.config import Composer, flatten, hiding_message, hydra_value
from kbench.errors import ConfigError, DataError, DataNotFoundError
from kbench.mistyped import GROUPS, key_of, nearest
from kbench.run.planning.command import KEY_LIMITS, Command, canonical
from kbench.run.planning.grids import combinations, names_in
from kbench.run.planning.method_file import MethodFile
from kbench.run.planning.registry import RESERVED
from kbench.run.planning.request import Request, checked_seed, pairs, read_request, recipe_of
from kbench.run.planning.task import Run, Task
from kbench.run.planning.tuned_files import (
    NO_TUNED_FILE,
    TunedFile,
    find_tuned,
    override_of_own_file,
    override_of_set,
    tuned_set_of,
)
from kbench.settings import Settings, settings

# (config of a data set, settings) -> folder of its prepared arrays
Obtain = Callable[[Mapping[str, Any], Settings], Path]

# (`module:Class`, kernel) -> parameters that change nothing with this kernel
IdleParams = Mapping[tuple[str, str], frozenset[str]]

# Parameters of scikit-learn that are a count of rows or features if they are int, and a fraction of
# all rows or features if they are float: 1 means one row, and 1.0 means all rows.
FRACTIONS = frozenset(
    ("max_features", "max_samples", "min_samples_leaf", "min_samples_split", "validation_fraction")
)

# Part of every key. Raise it when a change of kbench gives runs of the same config other outcomes.
KEY_VERSION = 2


@dataclass
class Plan:
    """The runs of a command in order, and the methods and keys that are left out, with reasons."""

    settings: Settings
    runs: list[Run] = field(default_factory=list)
    # (`module:Class`, parameters, task) of every run, also of those whose data are absent.
    estimators: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    # Lines about the tuned files that apply, and about shipped files that users replaced.
    tuned_lines: list[str] = field(default_factory=list)
    hidden_lines: list[str] = field(default_factory=list)
    # Reason -> methods, or keys of the grid, that are left out.
    left_out: dict[str, list[str]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # data set -> message
    tune_experiments: list[str] = field(default_factory=list)  # for `kbench tune` alone
    # Canonical config of a data set -> folder of its prepared arrays, and -> checksum.
    prepared: dict[str, Path] = field(default_factory=dict)
    fingerprints: dict[str, str | None] = field(default_factory=dict)
    # Canonical config without the split -> keys that a user's file completes; each file is read
    # once for all splits.
    completed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def drop(self, name: str, reason: str) -> None:
        """Record that a method, or a key of the grid, is left out."""
        names = self.left_out.setdefault(reason, [])
        if name not in names:
            names.append(name)

    def drop_repeats(self, idle: IdleParams) -> None:
        """Keep the first of the runs that differ only in parameters that change nothing."""
        first_runs: dict[Any, Run] = {}
        used_params: dict[tuple[str, frozenset[str]], str] = {}
        for run in self.runs:
            names = idle.get((run.estimator, str(run.params.get("kernel"))), frozenset())
            if names and (run.params_key, names) not in used_params:
                used = {name: value for name, value in run.params.items() if name not in names}
                used_params[run.params_key, names] = canonical(used)
            common = run.method, run.estimator, run.data_key, run.seed, repr(run.limits)
            key = (*common, used_params[run.params_key, names]) if names else run.key
            first = first_runs.setdefault(key, run)
            for name in sorted(names & set(run.params)):
                if first.params[name] != run.params[name]:
                    where = f"in {run.method} with kernel={run.params['kernel']}"
                    self.drop(name, f"changes nothing {where}: one run for all its values")
        self.runs = list(first_runs.values())

    def task(self, run: Run) -> Task:
        """The task of a run whose data have been prepared, for a worker."""
        return Task(
            run,
            str(self.prepared[run.data_key]),
            self.settings.datasets_dir,
            self.settings.download,
            tuple(self.settings.metrics),
        )

    @property
    def dropped(self) -> list[str]:
        """A line for each reason, which names the methods or keys that are left out."""
        return [f"{', '.join(names)}: {reason}" for reason, names in self.left_out.items()]


def make_plan(
    composer: Composer,
    overrides: Sequence[str],
    *,
    multirun: bool = False,
    obtain: Obtain | None = None,
) -> Plan:
    """Expand a command into its runs.

    overrides : Words of the command as typed. multirun : Whether `a=1,2` is a sweep.
    obtain : Downloads and prepares a data set. If it is None, data that are not on this machine are
        listed in `absent`.

    Raises ConfigError: a name, key or value that does not exist or does not fit.
    Raises DataError: a raw file is malformed (with `obtain`).
    """
    from kbench.data.configs.dataset import splits

    request = read_request(composer, overrides, multirun=multirun)
    plan: Plan | None = None
    index_of_key: dict[str, int] = {}
    unused_names = set(request.params)
    grid_names: set[str] = set()  # parameters in the grid of the command itself
    method_names: set[str] = set()
    for experiment, hydra_words in itertools.product(request.experiments, request.hydra_overrides):
        common = [*hydra_words, *([f"experiment={experiment}"] if experiment else [])]
        recipe = recipe_of(composer, experiment, hydra_words)
        tuned_set = tuned_set_of(recipe)
        for pair in pairs(request, experiment, recipe):
            method, dataset, words = pair.method, pair.dataset, [*pair.overrides, *common]
            words = [*override_of_set(tuned_set, method, dataset, common), *words]
            config = composer.compose([f"method={method}", f"dataset={dataset}", *words])
            path = config["dataset"].get("path") if dataset == "file" else None
            if implied := override_of_own_file(method, path, words):
                words = [*implied, *words]
                config = composer.compose([f"method={method}", f"dataset={dataset}", *words])
            experiment_grid = pair.grid_in(config.get("plan") or {})
            for name in experiment_grid:
                if name not in config["method"]:
                    hint = nearest(name, config["method"])
                    raise ConfigError(
                        f"experiment {experiment}: method {method} has no parameter {name!r}{hint}"
                    )
            config["grid"] = {**(config["grid"] or {}), **experiment_grid}
            if plan is None:
                plan = Plan(settings(config, words))
            if not isinstance(config["dataset"].get("split"), dict):
                wrong = config["dataset"].get("split")
                raise ConfigError(
                    f"dataset.split is {wrong!r}, should be set key by key, as in "
                    "dataset.split.test_fraction=0.2"
                )
            requested = _requested_config(config["dataset"], words)
            all_splits = splits(requested, [key_of(word) for word in words])
            if len(all_splits) > 1 and (recipe.get("tune") or config["dataset"].get("holdout")):
                raise ConfigError(
                    f"dataset.split asks for {len(all_splits)} splits, parameters are chosen on "
                    "the training rows of one: leave dataset.split.repeats and folds out"
                )
            key_values = [word.split("=", 1) for word in words if "=" in word]
            config_files = [*key_values, ["method", method], ["dataset", dataset]]
            for group, name in config_files:
                line = hiding_message(group, name) if group in GROUPS else None
                if line is not None and line not in plan.hidden_lines:
                    plan.hidden_lines.append(line)
            if recipe.get("tune") and experiment not in plan.tune_experiments:
                plan.tune_experiments.append(str(experiment))
            unused_names -= {*config["method"]} - {*RESERVED}
            if not experiment:
                grid_names |= names_in(config["grid"])
                method_names |= set(config["method"])
            tuned = find_tuned(method, dataset, words)
            default_config = config
            if words or tuned:
                default_config = composer.compose(
                    [f"method={method}", f"dataset={dataset}", NO_TUNED_FILE]
                )
            file = MethodFile.of(config["method"], method)
            runs: list[Run] = []
            for split in all_splits:
                split_words = [f"dataset.split.{k}={hydra_value(v)}" for k, v in split.items()]
                split_config = copy.deepcopy(config)
                split_config["dataset"]["split"] |= split
                run_words = [*words, *split_words]
                runs += _expand(
                    plan,
                    file,
                    split_config,
                    default_config,
                    run_words,
                    request,
                    recipe,
                    tuned,
                    obtain=obtain,
                )
            for run in runs:
                index = index_of_key.setdefault(run.key, len(plan.runs))
                if index == len(plan.runs):
                    plan.runs.append(replace(run, experiment=experiment))
                elif experiment and experiment not in str(plan.runs[index].experiment).split(","):
                    experiments = f"{plan.runs[index].experiment},{experiment}"
                    plan.runs[index] = replace(plan.runs[index], experiment=experiments)
    if plan is None:
        for common in request.hydra_overrides:
            composer.compose(common)  # raises for a misspelt `method=`, a key that does not exist
        raise ConfigError("nothing to run: name a method, as in `kbench method=svc dataset=digits`")
    if unused_names := unused_names | (grid_names - method_names):
        name = sorted(unused_names)[0]
        raise ConfigError(f"no method of this command has a parameter {name!r}{_hint(name, plan)}")
    return plan


# Parameters of scikit-learn's estimators -> the key that does the same in kbench.
_KBENCH_KEYS = {
    "seed": ": seed=... sets it",
    "n_jobs": ": parallel.jobs=... is the number of runs at a time, limits.threads=... of threads",
    "random_state": ": seed=... sets it",
    "probability": ": method.calibration=sigmoid adds probabilities",
}


def _hint(name: str, plan: Plan) -> str:
    if name in ("grid", "method"):
        return ": the keys of a grid's file are the parameters themselves, as in `C: [1, 10]`"
    params = {k for run in plan.runs for k in run.params}
    return _KBENCH_KEYS.get(name) or nearest(name.removeprefix("method."), params)


def _expand(
    plan: Plan,
    method: MethodFile,
    config: dict[str, Any],
    default_config: dict[str, Any],
    overrides: list[str],
    request: Request,
    recipe: Mapping[str, Any],
    tuned: TunedFile | None,
    *,
    obtain: Obtain | None,
) -> Iterator[Run]:
    """The runs of one (method, data set): every combination of grid and sweeps with every seed.

    config, default_config : The composed config, with and without the values of the command.
    """
    from kbench.run.planning import registry

    if "random_state" in default_config["method"]:
        raise ConfigError(
            f"method {method.name}: random_state{_KBENCH_KEYS['random_state']}, no file"
        )
    dataset = _dataset(plan, config["dataset"], overrides)
    tasks = method.meta.get("tasks")
    if tasks and dataset["task"] not in tasks:
        reason = f"not for {dataset['task']}, which {dataset['name']} is"
        if "task" in (dataset.get("assumed") or []):
            reason += f" by its targets; dataset.task={' or '.join(tasks)} sets another"
        plan.drop(method.name, reason)
        return
    if tuned is not None:
        tuned.check(method.name, default_config["method"])

    def drop(name: str, source: str) -> None:
        plan.drop(name, f"{source} dropped for {method.name}, which has no such parameter")

    grid = list(combinations(config.get("grid") or {}, request.params, method.params, drop))
    estimator = method.estimator_for(dataset["task"])
    target = registry.target(estimator, method.parts)
    optional = {*registry.WRAPPER_PARAMS, *method.optional()}
    plan.estimators += [
        (target, _run_params(method, varied, optional), dataset["task"]) for varied in grid
    ]
    data_sha256 = _fingerprint(plan, dataset, obtain=obtain)
    if data_sha256 is None:
        return
    limits = settings(config).limits
    form = _form(dataset, config["dataset"], default_config["dataset"])
    applied = _applied_tuned(plan, tuned, method, grid, (target, data_sha256, form))
    common = Run(
        key="",
        label=f"{method.name} on {dataset['name']}{f' ({form})' if form else ''}",
        method=method.name,
        estimator=target,
        dataset=dataset["name"],
        variant=form,
        task=dataset["task"],
        data_sha256=data_sha256,
        seed=0,
        params=method.params,
        params_key="",
        warmup=method.meta.get("warmup") or {},
        dataset_config=dataset,
        data_key=canonical(dataset),
        limits=limits,
        command="",
        tuned=applied.path.name if applied else None,
        tuned_sha256=applied.sha256 if applied else None,
        path=method.path(),
        method_version=method.version(),
    )
    # Parts as the method's file has them follow from the method's name, which the key holds.
    parts = method.parts if method.parts != default_config["method"].get("parts") else None
    head = _key_head(common, estimator, parts)
    command = Command(config, default_config)
    seeds = request.seeds or recipe.get("seeds") or [config.get("seed", 0)]
    for varied in grid:
        params = method.effective(_run_params(method, varied, optional))
        words = [f"{name}={hydra_value(value)}" for name, value in varied.items()]
        params_key, types = canonical(params), _fraction_types(params, method.params)
        tail = command.tail(params)
        for seed in seeds:
            hashed = f"{head}{params_key}{checked_seed(seed)}{types}"
            yield replace(
                common,
                key=hashlib.sha256(hashed.encode()).hexdigest()[:32],  # 128 bits
                label=" ".join([common.label, *words, f"seed {seed}"]),
                seed=seed,
                params=params,
                params_key=params_key,
                command=command.text(tail, seed),
            )


def _fraction_types(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The types of the FRACTIONS that are 1 and have a default of another type; "" if none.

    They are part of a run's key, because JSON writes 1.0 as 1.
    """
    types = {
        name: type(value).__name__
        for name, value in params.items()
        if name in FRACTIONS
        and value == 1
        and not isinstance(value, bool | type(defaults.get(name)))
    }
    return canonical(types) if types else ""


def _run_params(
    method: MethodFile, varied: Mapping[str, Any], optional: Collection[str]
) -> dict[str, Any]:
    """The parameters of a run, without optional ones that are null."""
    params = {**method.params, **varied}
    return {k: v for k, v in params.items() if v is not None or k not in optional}


def _key_head(run: Run, estimator: str, parts: Mapping[str, str] | None) -> str:
    """The part of a key that does not depend on parameters and seed.

    run : A run with the values that all runs share. estimator : Its name in the method's file.
    """
    from kbench.data import influence

    changed: dict[str, Any] = {} if parts is None else {"parts": parts}
    if run.method_version != 1:
        changed["method_version"] = run.method_version
    if run.dataset_config.get("chunks") not in (None, "auto"):
        changed["chunks"] = run.dataset_config["chunks"]
    return canonical(
        {
            **changed,
            "version": KEY_VERSION,
            "method": run.method,
            "estimator": estimator,
            "dataset": {k: v for k, v in influence(run.dataset_config).items() if k != "facts"},
            "data": run.data_sha256,
            "limits": {k: getattr(run.limits, k) for k in KEY_LIMITS},
        }
    )


def _applied_tuned(
    plan: Plan,
    tuned: TunedFile | None,
    method: MethodFile,
    grid: list[dict[str, Any]],
    subject: tuple[str, str, str | None],
) -> TunedFile | None:
    """The tuned file if it decides a parameter of these runs, else None; notes go to `plan`.

    subject : Class, checksum of the data and form of the data set, to compare with the file's.
    """
    if tuned is None or not grid:
        return None
    decided = [
        name
        for name, value in tuned.params.items()
        if name in method.params
        and name not in grid[0]
        and canonical(method.params[name]) == canonical(value)
    ]
    if not decided:
        return None
    lines = tuned.notes(decided, *subject)
    plan.tuned_lines += [line for line in lines if line not in plan.tuned_lines]
    return tuned


def _dataset(plan: Plan, config: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """The checked config of a data set, in which the command line's keys override the variant's."""
    from kbench.data import Folders, check_config, require_rows_for_folds, with_task

    folders = Folders.from_environment(plan.settings.datasets_dir)
    requested = _requested_config(config, overrides)
    without_split = canonical({**requested, "split": None})
    completed = plan.completed.get(without_split)
    if completed is not None:
        return check_config({**requested, **completed})
    checked = check_config(with_task(requested, folders, download=plan.settings.download))
    require_rows_for_folds(checked)
    names = ("name", "source", "task", "assumed")
    plan.completed[without_split] = {name: checked[name] for name in names if name in checked}
    return checked


def _requested_config(config: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """The config of a data set with its variant applied, then the keys of the command line."""
    from kbench.data import with_variant

    requested = with_variant(config)
    for text in overrides:
        path = key_of(text).split(".")
        if path[0] == "dataset" and len(path) > 1 and path[1] not in ("variant", "variants"):
            *groups, last = path[1:]
            source, target = config, requested
            for group in groups:
                source, target = source[group], target[group]
            target[last] = source[last]
    return requested


def _form(
    dataset: dict[str, Any], typed: Mapping[str, Any], default_config: dict[str, Any]
) -> str | None:
    """The variant and the changed keys of a data set, separated by commas; None for the default.

    The format of a user's file counts only if the command sets it.
    """
    from kbench.data import influence, with_variant

    common = {key: dataset.get(key) for key in ("variant", "task")}
    typed_keys = flatten(typed)
    plain = flatten(influence(with_variant(default_config | common)))
    changed = [
        f"{key}={hydra_value(value)}"
        for key, value in flatten(influence(dataset)).items()
        if plain.get(key) != value
        and key.partition(".")[0] not in ("name", "task", "facts")
        and not (key in ("source.format", "source.columns") and typed_keys.get(key) is None)
    ]
    words = [dataset["variant"]] if dataset.get("variant") else []
    return ",".join(words + changed) or None


def _fingerprint(plan: Plan, dataset: dict[str, Any], *, obtain: Obtain | None) -> str | None:
    """The data set's checksum, computed once per plan; None if its files are absent."""
    from kbench.data import Folders, fingerprint, open_prepared

    key = canonical(dataset)
    if key in plan.fingerprints:
        return plan.fingerprints[key]
    folders = Folders.from_environment(plan.settings.datasets_dir)
    plan.fingerprints[key] = None
    try:
        if obtain is None:
            plan.fingerprints[key] = fingerprint(dataset, folders)
        else:  # the file may have changed since its rows were read
            plan.prepared[key] = obtain(dataset, plan.settings)
            plan.fingerprints[key] = open_prepared(plan.prepared[key]).sha256
    except DataError as error:
        if obtain is not None and not isinstance(error, DataNotFoundError):
            raise
        plan.absent[dataset["name"]] = str(error)
    return plan.fingerprints[key]
