"""Settings that the papers state for their methods, and how the rows of a cell differ from them.

`settings.yaml` has them as parameters of kbench's methods, so that notes on differences are made of
the rows' parameters and not from memory.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kbench.report.papers.layout import load

_UNEXPLAINED = "no reason is given"


@dataclass(frozen=True)
class Stated:
    """What a paper states about some methods.

    Attributes
    ----------
    paper : str
    methods : tuple of str
    stated : mapping
        Parameter -> the paper's value, or a list of values that are as good.
    why : mapping
        Parameter -> why ours may differ.
    columns : str
        Regular expression that the column of the cell must match in full.
    always : str
        A difference of all rows of these methods, which no parameter shows.
    unnamed : mapping
        Parameter that the paper does not state -> where its value is from.
    """

    paper: str
    methods: tuple[str, ...]
    stated: Mapping[str, Any]
    why: Mapping[str, str] = field(default_factory=dict)
    columns: str = ".*"
    always: str = ""
    unnamed: Mapping[str, str] = field(default_factory=dict)


@cache
def all_stated() -> tuple[Stated, ...]:
    """All of them, in the order of the file.

    Raises
    ------
    TypeError, ValueError
        A key does not exist, or a reason is about a parameter that is not stated.
    """
    found = tuple(
        Stated(**one | {"methods": tuple(one["methods"])}) for one in load("settings.yaml")
    )
    for one in found:
        if unknown := sorted(set(one.why) - set(one.stated)):
            raise ValueError(f"settings.yaml: {one.methods[0]} does not state {unknown[0]}")
    return found


def stated(paper: str, method: str, column: str) -> Stated | None:
    """What a paper states about a method in a column of its tables; None if nothing is recorded."""
    return next(
        (
            one
            for one in all_stated()
            if one.paper == paper and method in one.methods and re.fullmatch(one.columns, column)
        ),
        None,
    )


def departures(of: Stated, params: Mapping[str, Any]) -> list[str]:
    """Parameters of a row that are not the paper's or that it does not state, with the reason.

    A parameter that the row does not have is that of an older version, which had no such choice.
    """
    said = []
    for name, value in of.stated.items():
        accepted = value if isinstance(value, list) else [value]
        if name in params and params[name] not in accepted:
            words = " or ".join("unset" if one is None else f"{one}" for one in accepted)
            own = "unset" if params[name] is None else params[name]
            said.append(f"{name} {own} (paper: {words}) - {of.why.get(name, _UNEXPLAINED)}")
    said += [
        f"{name} {params[name]} (the paper states none) - {why}"
        for name, why in of.unnamed.items()
        if name in params
    ]
    return said + ([of.always] if of.always else [])
