"""Combine values of parameters: every combination of a grid, or values side by side (`zip`)."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from kbench.errors import ConfigError

ZIP = "zip"

Combination = dict[str, Any]


def names_in(grid: Mapping[str, Any]) -> set[str]:
    """Names of the parameters that a grid varies.

    Raises ConfigError: `zip` does not have the form that `combinations` takes.
    """
    return {str(key) for key in grid if key != ZIP} | {
        name for lists in _zip_entries(grid) for name in lists
    }


def combinations(
    grid: Mapping[str, Any],
    swept: Mapping[str, list[Any]],
    method_params: Collection[str],
    drop: Callable[[str, str], None],
) -> Iterator[Combination]:
    """Every combination of the values of a grid and of sweeps, without parameters of other methods.

    grid : parameter -> values, and `zip` -> list of mappings from parameters to lists of equal
        length, whose values vary together: `zip: [{C: [1, 10], gamma: [.1, .01]}]` makes two pairs.
    swept : parameter -> values on the command line, which replace values of the grid
    method_params : Parameters of the method
    drop : Called with each parameter that the method lacks, and its source: "grid" or "sweep"

    Raises ConfigError: a list is empty, `zip` has another form, its lists have different lengths,
    or a parameter of `zip` also has other values.
    """
    axes: dict[str, list[Combination]] = {}
    for source, values_of in (("grid", grid), ("sweep", swept)):
        for key, values in values_of.items():
            if source == "grid" and key == ZIP:
                continue
            if str(key) in method_params:
                value_list = list(values) if isinstance(values, (list, tuple)) else [values]
                if not value_list:
                    raise ConfigError(f"grid.{key} is [], should have a value or more")
                axes[str(key)] = [{str(key): value} for value in value_list]
            else:
                drop(str(key), source)
    zipped_axes: list[list[Combination]] = []
    used_names = set(axes)
    for lists in _zip_entries(grid):
        for name in lists:
            if name in used_names:
                raise ConfigError(f"{name} is in grid.{ZIP} and has values elsewhere, too")
            used_names.add(name)
            if name not in method_params:
                drop(name, "grid")
        own_lists = {name: values for name, values in lists.items() if name in method_params}
        if own_lists:
            combined = zip(*own_lists.values(), strict=True)
            zipped_axes.append([dict(zip(own_lists, values, strict=True)) for values in combined])
    for axis_values in itertools.product(*axes.values(), *zipped_axes):
        yield {name: value for values in axis_values for name, value in values.items()}


def _zip_entries(grid: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """The mappings of `zip`; ConfigError unless they have the form that `combinations` takes."""
    entries = grid.get(ZIP)
    if entries is None:
        return []
    message = (
        f"grid.{ZIP} is {entries!r}, should be a list such as [{{C: [1, 10], gamma: [.1, .01]}}]"
    )
    if not isinstance(entries, list):
        raise ConfigError(message)
    result = []
    for entry in entries:
        if not isinstance(entry, Mapping) or not all(isinstance(v, list) for v in entry.values()):
            raise ConfigError(message)
        lengths = {str(name): len(values) for name, values in entry.items()}
        if 0 in lengths.values():
            raise ConfigError(message)
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name} {n}" for name, n in lengths.items())
            raise ConfigError(f"grid.{ZIP} has lists of different lengths: {counts}")
        result.append({str(name): list(values) for name, values in entry.items()})
    return result
