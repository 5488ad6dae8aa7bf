"""A command line as it was typed, sorted by which module expands each override.

Methods, data sets and experiments are composed by Hydra pair by pair; seeds and the method's own
parameters are expanded on dictionaries; everything else is an override for each composition.
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

_MAX_VALUES = 10_000
"""Guard: maximum number of values of a key in one command. Their plan takes 3 s, and a slip such as
seed=range(0,10**9) would take hours without a message."""


@dataclass(frozen=True)
class Request:
    """A parsed command line: what is swept and where each override belongs."""

    experiments: list[str | None]
    methods: list[str] | None
    datasets: list[str] | None
    seeds: list[int] | None
    params: dict[str, list[Any]]  # method.<name> -> values
    composed: list[list[str]]  # overrides for Hydra, one list per combination


# Keys whose values are lists, which a comma may mean.
_LISTS = re.compile(
    r"metrics|callbacks|dataset\.(source\.columns\.(drop|categorical|names)|"
    r"target\.(positive|negative|outlier))"
)

# Keys that every run of a command shares.
_OF_COMMAND = {field.name for field in fields(Settings)} - {"seed", "limits"}


def read_request(composer: Composer, overrides: Sequence[str], *, multirun: bool) -> Request:
    """Sort the overrides of a command.

    `dataset.path=...` alone stands for `dataset=file` too, and `dataset=openml:61` for
    `dataset.path=openml:61`.

    Raises ConfigError: a name that does not exist, an invalid seed, or a sweep without -m.
    """
    named: dict[str, list[str]] = {}
    params: dict[str, list[Any]] = {}
    seeds: list[int] | None = None
    dimensions: list[list[str]] = []
    path_named = False
    places: dict[str, str] = {}
    for text, override in zip(overrides, composer.parse(overrides), strict=True):
        key = override.key_or_group
        places[key] = text
        sweep, typed = override.is_sweep_override(), text.partition("=")[2]
        is_list = _LISTS.fullmatch(key) is not None
        if sweep and key.startswith("grid."):
            raise ConfigError(f"{text}: values of a grid are a list: '{key}=[1,10]'")
        if sweep and not multirun:
            as_list = f", write a list as {key}=[{typed}]" * is_list
            raise ConfigError(
                f"{text} sweeps over several values: add -m for a run each{as_list}, or quote the "
                "value"
            )
        if sweep and key.partition(".")[0] in _OF_COMMAND:
            instead = f"write a list as {key}=[{typed}]" if is_list else "quote a comma"
            raise ConfigError(f"{text}: {key} is one value for all runs of a command; {instead}")
        values = [typed]
        if sweep:
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
            path_named = True
        elif key in ("method", "dataset", "experiment"):
            if not override.is_delete():
                for value in values:
                    require_option(key, value)
                named[key] = values
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
                path_named = True
    of_plan = [text for key, text in places.items() if key.partition(".")[0] == "plan"]
    if of_plan and "experiment" not in named:
        raise ConfigError(f"{of_plan[0]}: plan is of an experiment; write method=, dataset=, seed=")
    if path_named and not named.keys() & {"dataset", "experiment"}:
        named["dataset"] = ["file"]
    return Request(
        experiments=list(named.get("experiment", [None])),
        methods=named.get("method"),
        datasets=named.get("dataset"),
        seeds=seeds,
        params=params,
        composed=[list(combination) for combination in itertools.product(*dimensions)],
    )


def checked_seed(value: Any) -> int:
    """Return `value` if it can seed a generator; else raise a ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        several = "; several are written -m seed=0,1,2" if isinstance(value, list) else ""
        raise ConfigError(f"seed is {value!r}, should be an integer from 0 to 4294967295{several}")
    return value


# Keys of an experiment's `plan` -> the type of their values, and such a value.
_RECIPE: dict[str, tuple[type, str]] = {
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
    """The plan that an experiment's file and these overrides make; empty without an experiment.

    Raises ConfigError: the file lacks its first line, or has a key or a form of value that nothing
    reads.
    """
    if experiment is None:
        return {}
    config = composer.compose([*overrides, f"experiment={experiment}"])
    file = f"experiment/{experiment}.yaml"
    if "experiment" in config:
        raise ConfigError(f"{file}: the first line should be '# @package _global_'")
    recipe = config.get("plan") or {}
    for prefix, keys, known in (("", config, KEYS), ("plan.", recipe, _RECIPE)):
        for key in keys:
            if key not in known:
                hint = nearest(str(key), known) or f", should be one of {', '.join(sorted(known))}"
                raise ConfigError(f"{file}: no key is called '{prefix}{key}'{hint}")
    for key, value in recipe.items():
        kind, right = _RECIPE[key]
        if value is not None and (not isinstance(value, kind) or (kind is list and not value)):
            raise ConfigError(f"{file}: plan.{key} is {value!r}, should be {right}")
    return recipe


@dataclass(frozen=True)
class Pair:
    """A method on a data set, with the values that an experiment's plan gives for the pair."""

    method: str
    dataset: str
    overrides: list[str]  # of the data set's keys
    place: int  # of the method in the experiment's list

    def grid_in(self, recipe: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The grid of the pair in its own composition, where `${use:...}` is the data set's."""
        entries = recipe.get("methods")
        params = _entry("method", entries[self.place])[1] if entries else {}
        return {k: v if isinstance(v, list) else [v] for k, v in params.items()}


def pairs(request: Request, experiment: str | None, recipe: Mapping[str, Any]) -> Iterator[Pair]:
    """Pairs in order; an experiment's lists are reduced to the names on the command line.

    An entry of `methods` or `datasets` is a name, or a name with values of its own:
    `lasvm: {epochs: [1, 2, 5]}` sweeps that method's parameter, `census: {variant: half}` sets a
    key of the data set.
    """
    lists: list[list[tuple[int, str, dict[str, Any]]]] = []
    for kind, asked, default in (
        ("method", request.methods, []),
        ("dataset", request.datasets, ["digits"]),
    ):
        if recipe.get(f"{kind}s") is None:
            lists.append([(0, name, {}) for name in asked or default])
            continue
        offered = [(i, *_entry(kind, entry)) for i, entry in enumerate(recipe[f"{kind}s"])]
        kept = [entry for entry in offered if asked is None or entry[1] in asked]
        known = list(dict.fromkeys(name for _, name, _ in offered))
        absent = [name for name in asked or [] if name not in known]
        # With several experiments, each may have others of the names.
        if absent and (not kept or len(request.experiments) == 1):
            raise ConfigError(
                f"experiment {experiment} has no {kind} {', '.join(absent)}; it has "
                f"{', '.join(known)}"
            )
        lists.append(kept)
    methods, datasets = lists
    for _, dataset, keys in datasets:
        overrides = [f"dataset.{key}={hydra_value(value)}" for key, value in keys.items()]
        for place, method, _ in methods:
            yield Pair(method, dataset, overrides, place)


def _entry(kind: str, entry: Any) -> tuple[str, dict[str, Any]]:
    """(name, own values) of an entry in a plan's list."""
    if isinstance(entry, Mapping):
        values = next(iter(entry.values()), None)
        if len(entry) != 1 or not isinstance(values, Mapping):
            raise ConfigError(
                f"plan.{kind}s holds {dict(entry)!r}, should be a name or `name: {{key: value}}`"
            )
        name, own = str(next(iter(entry))), {str(k): v for k, v in values.items()}
    else:
        name, own = str(entry), {}
    require_option(kind, name)
    return name, own
