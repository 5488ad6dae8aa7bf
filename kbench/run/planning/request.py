"""Sort the overrides of a command line by the module that expands them.

Hydra composes each pair of a method and a data set. Seeds and the method's own parameters are
expanded without Hydra. All other overrides are part of each composition.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kbench.config import Composer, hydra_value, interpolates, require_option
from kbench.errors import ConfigError
from kbench.mistyped import GROUPS, KEYS, nearest
from kbench.settings import Settings

# Guard: maximum number of values of a key in one command. A slip such as seed=range(0,10**9) would
# otherwise take hours without a message.
_MAX_VALUES = 10_000


@dataclass(frozen=True)
class Request:
    """The overrides of a command line, sorted."""

    experiments: list[str | None]  # [None] without an experiment
    methods: list[str] | None
    datasets: list[str] | None
    seeds: list[int] | None
    params: dict[str, list[Any]]  # method.<name> -> values
    hydra_overrides: list[list[str]]  # one list per combination


# Keys whose values are lists, for which a comma may be meant as a list.
_LIST_KEYS = re.compile(
    r"metrics|callbacks|dataset\.(source\.columns\.(drop|categorical|names)|"
    r"target\.(positive|negative|outlier))"
)

# Keys that every run of a command shares.
_COMMAND_KEYS = {field.name for field in fields(Settings)} - {"seed", "limits"}


def read_request(composer: Composer, overrides: Sequence[str], *, multirun: bool) -> Request:
    """Sort the overrides of a command.

    `dataset.path=...` without `dataset=...` implies `dataset=file`, and `dataset=openml:61` means
    `dataset.path=openml:61`.

    Raises ConfigError: a name that does not exist, an invalid seed, or a sweep without -m.
    """
    names_of_group: dict[str, list[str]] = {}
    params: dict[str, list[Any]] = {}
    seeds: list[int] | None = None
    dimensions: list[list[str]] = []
    has_path = False
    text_of_key: dict[str, str] = {}
    for text, override in zip(overrides, composer.parse(overrides), strict=True):
        key = override.key_or_group
        text_of_key[key] = text
        is_sweep, value_text = override.is_sweep_override(), text.partition("=")[2]
        is_list = _LIST_KEYS.fullmatch(key) is not None
        if is_sweep and key.startswith("grid."):
            raise ConfigError(f"{text}: values of a grid are a list: '{key}=[1,10]'")
        if is_sweep and not multirun:
            as_list = f", write a list as {key}=[{value_text}]" * is_list
            raise ConfigError(
                f"{text} sweeps over several values: add -m for a run each{as_list}, or quote the "
                "value"
            )
        if is_sweep and key.partition(".")[0] in _COMMAND_KEYS:
            remedy = f"write a list as {key}=[{value_text}]" if is_list else "quote a comma"
            raise ConfigError(f"{text}: {key} is one value for all runs of a command; {remedy}")
        values = [value_text]
        if is_sweep:
            swept = itertools.islice(override.sweep_string_iterator(), _MAX_VALUES + 1)
            values = [str(value) for value in swept]
        if not values:
            raise ConfigError(f"{text} matches nothing: write the values, as in {key}=A,B")
        if len(values) > _MAX_VALUES:
            raise ConfigError(
                f"{text}: more than {_MAX_VALUES:,} values, should be fewer; several commands may "
                "write to one results folder"
            )
        if key == "dataset" and any(re.match(r"openml\\?:", value) for value in values):
            if len(values) > 1:
                raise ConfigError(
                    f"{text}: a number on OpenML stands alone, as in dataset=openml:61"
                )
            dimensions.append([f"dataset.path={values[0]}"])
            has_path = True
        elif key in ("method", "dataset", "experiment"):
            if not override.is_delete():
                for value in values:
                    require_option(key, value)
                names_of_group[key] = values
        elif key == "seed":
            seeds = [checked_seed(composer.value("seed", value)) for value in values]
        elif override.is_delete():
            dimensions.append([text])
        elif key.startswith("method.") and not (override.is_add() or override.is_force_add()):
            name = key.removeprefix("method.")
            if interpolates(text):
                raise ConfigError(
                    f"{text}: a value of a method is not looked up in other keys; write the values,"
                    " pairs as grid.zip=[{C:[1,10],gamma:[0.1,0.01]}]"
                )
            params[name] = [composer.value("method.value", value) for value in values]
        else:
            prefix = text.partition("=")[0]
            if key.startswith("grid.") and not prefix.startswith(("+", "~")):
                prefix = f"++{prefix}"
            if key in GROUPS:
                for value in values:
                    require_option(key, value)
            dimensions.append([f"{prefix}={value}" for value in values])
            if key == "dataset.path":
                has_path = True
    plan_words = [text for key, text in text_of_key.items() if key.partition(".")[0] == "plan"]
    if plan_words and "experiment" not in names_of_group:
        text = plan_words[0]
        raise ConfigError(f"{text}: plan is of an experiment; write method=, dataset=, seed=")
    if has_path and not names_of_group.keys() & {"dataset", "experiment"}:
        names_of_group["dataset"] = ["file"]
    return Request(
        experiments=list(names_of_group.get("experiment", [None])),
        methods=names_of_group.get("method"),
        datasets=names_of_group.get("dataset"),
        seeds=seeds,
        params=params,
        hydra_overrides=[list(combination) for combination in itertools.product(*dimensions)],
    )


def checked_seed(value: Any) -> int:
    """Return `value` if it is a valid seed of a generator; else raise ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        hint = "; several are written -m seed=0,1,2" if isinstance(value, list) else ""
        raise ConfigError(f"seed is {value!r}, should be an integer from 0 to 4294967295{hint}")
    return value


# Key of an experiment's `plan` -> the type of its value, and the words for that type.
_PLAN_KEYS: dict[str, tuple[type, str]] = {
    "about": (str, "a line of text"),
    "methods": (list, "a list, as in [svc, knn]"),
    "datasets": (list, "a list, as in [digits, iris]"),
    "seeds": (list, "a list, as in [0, 1, 2]"),
    "tune": (dict, "a mapping, as in {runs: 20}"),
    "tuned": (str, "a name"),
}


def recipe_of(
    composer: Composer, experiment: str | None, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """The `plan` of an experiment composed with these overrides; empty without an experiment.

    Raises ConfigError: the file lacks its first line, or has an unknown key or a value of a wrong
    type.
    """
    if experiment is None:
        return {}
    config = composer.compose([*overrides, f"experiment={experiment}"])
    file = f"experiment/{experiment}.yaml"
    if "experiment" in config:
        raise ConfigError(f"{file}: the first line should be '# @package _global_'")
    recipe = config.get("plan") or {}
    for prefix, keys, valid in (("", config, KEYS), ("plan.", recipe, _PLAN_KEYS)):
        for key in keys:
            if key not in valid:
                hint = nearest(str(key), valid) or f", should be one of {', '.join(sorted(valid))}"
                raise ConfigError(f"{file}: no key is called '{prefix}{key}'{hint}")
    for key, value in recipe.items():
        expected_type, expected = _PLAN_KEYS[key]
        if value is not None and (
            not isinstance(value, expected_type) or (expected_type is list and not value)
        ):
            raise ConfigError(f"{file}: plan.{key} is {value!r}, should be {expected}")
    return recipe


@dataclass(frozen=True)
class Pair:
    """A method on a data set, with the values that an experiment's plan gives for the pair."""

    method: str
    dataset: str
    overrides: list[str]  # overrides of keys of the data set
    method_index: int  # in the experiment's list

    def grid_in(self, recipe: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The pair's grid in a composed plan, in which `${use:...}` has the data set's values."""
        entries = recipe.get("methods")
        params = _entry("method", entries[self.method_index])[1] if entries else {}
        return {k: v if isinstance(v, list) else [v] for k, v in params.items()}


def pairs(request: Request, experiment: str | None, recipe: Mapping[str, Any]) -> Iterator[Pair]:
    """Pairs in order; names on the command line select from the lists of an experiment.

    An entry of `methods` or `datasets` is a name, or a name with values: `lasvm: {epochs: [1, 2]}`
    sweeps a parameter of the method, `census: {variant: half}` sets a key of the data set.
    """
    lists: list[list[tuple[int, str, dict[str, Any]]]] = []
    for kind, chosen_names, default in (
        ("method", request.methods, []),
        ("dataset", request.datasets, ["digits"]),
    ):
        if recipe.get(f"{kind}s") is None:
            lists.append([(0, name, {}) for name in chosen_names or default])
            continue
        entries = [(i, *_entry(kind, entry)) for i, entry in enumerate(recipe[f"{kind}s"])]
        selected = [entry for entry in entries if chosen_names is None or entry[1] in chosen_names]
        available = list(dict.fromkeys(name for _, name, _ in entries))
        absent = [name for name in chosen_names or [] if name not in available]
        # Of several experiments, each may lack some of the names.
        if absent and (not selected or len(request.experiments) == 1):
            raise ConfigError(
                f"experiment {experiment} has no {kind} {', '.join(absent)}; it has "
                f"{', '.join(available)}"
            )
        lists.append(selected)
    methods, datasets = lists
    for _, dataset, keys in datasets:
        overrides = [f"dataset.{key}={hydra_value(value)}" for key, value in keys.items()]
        for index, method, _ in methods:
            yield Pair(method, dataset, overrides, index)


def _entry(kind: str, entry: Any) -> tuple[str, dict[str, Any]]:
    """The name and the values of an entry in a plan's list."""
    if isinstance(entry, Mapping):
        values = next(iter(entry.values()), None)
        if len(entry) != 1 or not isinstance(values, Mapping):
            raise ConfigError(
                f"plan.{kind}s holds {dict(entry)!r}, should be a name or `name: {{key: value}}`"
            )
        name, params = str(next(iter(entry))), {str(k): v for k, v in values.items()}
    else:
        name, params = str(entry), {}
    require_option(kind, name)
    return name, params
