"""Values of parameters as combinations: all of a grid's with each other, or pairs (`zip`)."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from kbench.errors import ConfigError

ZIP = "zip"

Point = dict[str, Any]


def names_in(grid: Mapping[str, Any]) -> set[str]:
    """Names of the parameters that a grid varies.

    Raises ConfigError: `zip` has another form than combinations takes.
    """
    return {str(key) for key in grid if key != ZIP} | {
        name for together in _zipped(grid) for name in together
    }


def combinations(
    grid: Mapping[str, Any],
    swept: Mapping[str, list[Any]],
    known: Collection[str],
    drop: Callable[[str, str], None],
) -> Iterator[Point]:
    """Every combination of the grid's and the sweeps' values, those of other methods dropped.

    grid : Parameter to its values, and `zip` to a list of mappings of parameters to lists of equal
        length, whose values vary together: `zip: [{C: [1, 10], gamma: [.1, .01]}]` is two points.
    swept : Values of the command line; they replace those that the grid has for a parameter
    known : collection of str. Parameters of the method.
    drop : Called with a parameter that the method lacks, and whose values it was: grid or sweep

    Raises ConfigError: a list is empty, `zip` has another form, its lists have different lengths,
    or a parameter of it has values elsewhere, too.
    """
    axes: dict[str, list[Point]] = {}
    for source, wanted in (("grid", grid), ("sweep", swept)):
        for key, values in wanted.items():
            if source == "grid" and key == ZIP:
                continue
            if str(key) in known:
                several = list(values) if isinstance(values, (list, tuple)) else [values]
                if not several:
                    raise ConfigError(f"grid.{key} is [], should have a value or more")
                axes[str(key)] = [{str(key): value} for value in several]
            else:
                drop(str(key), source)
    joint: list[list[Point]] = []
    seen = set(axes)
    for together in _zipped(grid):
        for name in together:
            if name in seen:
                raise ConfigError(f"{name} is in grid.{ZIP} and has values elsewhere, too")
            seen.add(name)
            if name not in known:
                drop(name, "grid")
        kept = {name: values for name, values in together.items() if name in known}
        if kept:
            joint.append(
                [dict(zip(kept, point, strict=True)) for point in zip(*kept.values(), strict=True)]
            )
    for points in itertools.product(*axes.values(), *joint):
        yield {name: value for point in points for name, value in point.items()}


def _zipped(grid: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    entries = grid.get(ZIP)
    if entries is None:
        return []
    right = (
        f"grid.{ZIP} is {entries!r}, should be a list such as [{{C: [1, 10], gamma: [.1, .01]}}]"
    )
    if not isinstance(entries, list):
        raise ConfigError(right)
    made = []
    for entry in entries:
        if not isinstance(entry, Mapping) or not all(isinstance(v, list) for v in entry.values()):
            raise ConfigError(right)
        lengths = {str(name): len(values) for name, values in entry.items()}
        if 0 in lengths.values():
            raise ConfigError(right)
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name} {n}" for name, n in lengths.items())
            raise ConfigError(f"grid.{ZIP} has lists of different lengths: {counts}")
        made.append({str(name): list(values) for name, values in entry.items()})
    return made
