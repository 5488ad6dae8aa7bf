"""The only table of the outcomes of a claim, and of the reasons why a claim is open.

Pages with their filter and colours, the terminal and CSV follow this table, and a test compares it
with the table in `docs/papers.md`. A further reason needs one more entry.
"""

from dataclasses import dataclass

from kbench.report.charts.style import Style


@dataclass(frozen=True)
class Outcome:
    """What the rows say of a claim."""

    word: str  # {"holds", "does not hold", "open"}
    means: str  # The condition of the outcome, for the legend and the docs
    style: Style  # The mark in pictures
    badge: str = ""  # {"good", "bad", ""}: the class in the style sheet of the pages
    reason: str = ""  # Why the claim is open

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" if self.reason else self.word


def _open(reason: str, means: str) -> Outcome:
    return Outcome("open", means, Style(4, 2), reason=reason)


HOLDS = Outcome(
    "holds",
    "every case that the paper prints keeps the claim's bound, on the paper's own data",
    Style(2, 0),
    "good",
)
FAILS = Outcome(
    "does not hold", "on the paper's own data a case misses the claim's bound", Style(1, 6), "bad"
)
OTHER_DATA = _open(
    "other data", "the runs are on data that stand in for the paper's, such as a part of its rows"
)
UNKNOWN_SETTINGS = _open("settings not stated", "the paper does not give the settings")
OTHER_SETTINGS = _open(
    "other settings", "the runs have settings other than the paper's that matter to the number"
)
TOO_NOISY = _open(
    "too noisy", "the answer changes if times or scores differ as much as those of equal runs do"
)
NOT_RUN = _open("not run", "nobody has made the runs, or they ended without a value")
OTHER_MACHINES = _open(
    "other machines", "the two sides have runs on different machines alone, which are not compared"
)
NO_DATA = _open("no data", "the data are not present, and no other data stand in for them")

OUTCOMES = (
    *(HOLDS, FAILS, OTHER_DATA, UNKNOWN_SETTINGS, OTHER_SETTINGS),
    *(TOO_NOISY, NOT_RUN, OTHER_MACHINES, NO_DATA),
)
# Reason -> outcome.
OPEN = {outcome.reason: outcome for outcome in OUTCOMES if outcome.reason}
