"""Numbers that papers print, as data.

Table, row, column and quantity identify a value. A value has its digits as printed, a unit, and a
status: `printed` or `read off` (a plot).
"""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from kbench.report.comparisons.reading import package_text

Place = tuple[str, str, str, str]


@dataclass(frozen=True)
class Printed:
    """One printed value."""

    text: str  # The value as printed; `-` if the paper has a dash
    unit: str = ""
    status: str = "printed"  # {"printed", "read off"}
    note: str = ""  # Further information, such as the edition

    @property
    def number(self) -> float | None:
        """The value as a number; None for a bound such as `>300000`, a dash, or words."""
        return _number(self.text)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The smallest and the largest value that the text allows, which are equal for a number; a
        bound such as `>300000` has the number and infinity; None for a dash or words."""
        lower = _number(self.text.removeprefix(">"))
        if lower is None:
            return None
        return lower, math.inf if self.text.startswith(">") else lower

    @property
    def size(self) -> tuple[float, float] | None:
        """A number of rows or features and the unit of its rounding: (32000, 1000) for `32K`."""
        unit = {"K": 1e3, "M": 1e6}.get(self.text[-1:], 1.0)
        digits = self.text if unit == 1.0 else self.text[:-1]
        value = _number(digits)
        if value is None:
            return None
        return value * unit, unit * 10.0 ** -len(digits.partition(".")[2])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@cache
def printed(paper: str) -> Mapping[Place, Printed]:
    """Place (table, row, column, quantity) -> value, in the order of the file."""
    text = package_text("kbench.papers.printed", f"{paper}.csv")
    return {
        (line["table"], line["row"], line["column"], line["quantity"]): Printed(
            line["value"], line["unit"], line["status"], line["note"]
        )
        for line in csv.DictReader(text.splitlines())
    }
