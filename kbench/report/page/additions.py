"""Additions of other packages' reports to a page and to its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kbench.report.page.site import RowStore, View


@dataclass(frozen=True)
class Addition:
    """Parts of a page that a plug-in adds."""

    summary: str = ""  # A part of the line at the top of the page; may be empty
    front: str = ""  # HTML for the overview; may be empty
    # Lists before the list of data sets, and lists after it.
    views: Sequence[View] = ()
    studies: Sequence[View] = ()
    # Data set -> titles by which the filter `paper` finds it.
    titles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Identifiers of the environments that the page has to describe.
    environments: frozenset[str] = frozenset()


class Contribution(Protocol):
    """The report of a plug-in on the rows of one results folder."""

    def addition(self, store: RowStore) -> Addition:
        """The parts of a page; rows behind their cells are added to `store`."""
        ...

    def write(self, folder: Path) -> list[Path]:
        """Write files of other formats to `folder`, and return their paths."""
        ...
