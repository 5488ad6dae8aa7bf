"""Settings that the papers state for their methods, and differences of a cell's rows.

`settings.yaml` has the settings as parameters of kbench's methods, so that notes follow from the
rows. The first entry of the file with a cell's paper, method, table and column counts for the cell.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kbench.papers.printed.layout import TableLayout, load
from kbench.report.comparisons.tables import Line


@dataclass(frozen=True)
class Stated:
    """A paper's statements on the settings of some methods, with the keys of `settings.yaml`."""

    paper: str
    methods: tuple[str, ...]
    stated: Mapping[str, Any] = field(default_factory=dict)
    recalled: Mapping[str, Any] = field(default_factory=dict)
    implied: Mapping[str, Any] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    tables: str = ".*"
    columns: str = ".*"
    always: str = ""
    unnamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> Mapping[str, Mapping[str, Any]]:
        """Source of settings, in the words of notes -> the settings."""
        return {
            "paper": self.stated,
            "appendix, unverified": self.recalled,
            "by the printed cost": self.implied,
        }


@cache
def all_stated() -> tuple[Stated, ...]:
    """All entries, in the order of the file.

    Raises TypeError, ValueError: a key does not exist, or `why` names a parameter that the entry
    does not state.
    """
    entries = tuple(
        Stated(**entry | {"methods": tuple(entry["methods"])}) for entry in load("settings.yaml")
    )
    for entry in entries:
        if unknown := sorted(set(entry.why).difference(*entry.sources.values())):
            raise ValueError(f"settings.yaml: {entry.methods[0]} does not state {unknown[0]}")
    return entries


def stated_settings(table: TableLayout, column: str, method: str) -> Stated | None:
    """A paper's statements on a method in a column of a table; None if nothing is recorded."""
    for entry in all_stated():
        if (
            entry.paper == table.paper
            and method in entry.methods
            and re.fullmatch(entry.tables, table.name)
            and re.fullmatch(entry.columns, column)
        ):
            return entry
    return None


def departures(stated: Stated | None, line: Line) -> list[str]:
    """Settings of the rows that differ from the paper's or that the paper omits, with reasons.

    Parameters that the rows lack do not count: the method's version of the rows did not have them.
    """
    if stated is None:
        return []
    columns = {name: value for row in line.ok for name, value in row.items() if value is not None}
    actual = {**columns, **line.params}
    texts = []
    for source, settings in stated.sources.items():
        for name, value in settings.items():
            accepted = value if isinstance(value, list) else [value]
            if name in actual and actual[name] not in accepted:
                papers = " or ".join(map(_text, accepted))
                why = stated.why.get(name, "no reason is given")
                texts.append(f"{name} {_text(actual[name])} ({source}: {papers}) - {why}")
    texts += [
        f"{name} {_text(actual[name])} (the paper states none) - {stated.unnamed[name]}"
        for name in unnamed(stated, line)
    ]
    return texts + ([stated.always] if stated.always else [])


def unnamed(stated: Stated | None, line: Line) -> list[str]:
    """The parameters of the rows that the paper does not state."""
    return [name for name in stated.unnamed if name in line.params] if stated is not None else []


def _text(value: Any) -> str:
    return "unset" if value is None else f"{value}"
