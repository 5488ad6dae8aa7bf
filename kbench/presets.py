"""Presets of estimators: named default values, which parameters that are given override."""

from collections.abc import Mapping
from typing import Any


def resolve(
    preset: str | None, table: Mapping[Any, Mapping[str, Any]], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Values in effect: those given, or those of the preset where a parameter is None.

    Parameters
    ----------
    preset : key of `table`
    table : preset -> parameter -> value
    given : parameter -> value or None
        The parameters that presets set.
    """
    defaults = table[preset]
    return {name: defaults[name] if value is None else value for name, value in given.items()}
