"""A command line as it was typed, sorted by who expands what.

Methods, data sets and experiments are composed by Hydra pair by pair; seeds and the method's own
parameters are expanded on dictionaries; everything else is an override for each composition.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.config import GROUPS, Composer, require_option
from kbench.errors import ConfigError


@dataclass(frozen=True)
class Request:
    """A parsed command line: what is swept and where each override belongs."""

    experiments: list[str | None]
    methods: list[str] | None
    datasets: list[str] | None
    seeds: list[int] | None
    params: dict[str, list[Any]]  # method.<name> -> values
    composed: list[list[str]]  # overrides for Hydra, one list per combination


def read_request(composer: Composer, overrides: Sequence[str], *, multirun: bool) -> Request:
    """Sort the overrides of a command.

    Raises
    ------
    ConfigError
        A name that does not exist, a seed that is none, or a sweep without -m.
    """
    named: dict[str, list[str]] = {}
    params: dict[str, list[Any]] = {}
    seeds: list[int] | None = None
    dimensions: list[list[str]] = []
    for text, override in zip(overrides, composer.parse(overrides), strict=True):
        key = override.key_or_group
        sweep = override.is_sweep_override()
        if sweep and not multirun:
            raise ConfigError(f"{text} sweeps over several values: add -m, or quote the value")
        values = (
            [str(v) for v in override.sweep_string_iterator()]
            if sweep
            else [text.partition("=")[2]]
        )
        if key in ("method", "dataset", "experiment"):
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
            params[name] = [composer.value("value", value) for value in values]
        else:
            prefix = text.partition("=")[0]
            if key.startswith("grid.") and not prefix.startswith(("+", "~")):
                prefix = f"++{prefix}"
            if key in GROUPS:
                for value in values:
                    require_option(key, value)
            dimensions.append([f"{prefix}={value}" for value in values])
    return Request(
        experiments=list(named.get("experiment", [None])),
        methods=named.get("method"),
        datasets=named.get("dataset"),
        seeds=seeds,
        params=params,
        composed=[list(combination) for combination in itertools.product(*dimensions)],
    )


def checked_seed(value: Any) -> int:
    """`value` where it can seed a generator, else a ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise ConfigError(f"seed is {value!r}, should be an integer from 0 to 4294967295")
    return value


def pairs(
    request: Request, experiment: str | None, recipe: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """(method, data set) in order; an experiment's lists are filtered by what was named."""
    lists = []
    for kind, asked, default in (
        ("method", request.methods, []),
        ("dataset", request.datasets, ["digits"]),
    ):
        offered = recipe.get(f"{kind}s")
        if offered is None:
            lists.append(asked or default)
            continue
        for name in offered:
            require_option(kind, name)
        kept = [name for name in offered if asked is None or name in asked]
        if not kept:
            raise ConfigError(
                f"experiment {experiment} has no {kind} {', '.join(asked or [])}; "
                f"it has {', '.join(offered)}"
            )
        lists.append(kept)
    methods, datasets = lists
    yield from ((method, dataset) for dataset in datasets for method in methods)
