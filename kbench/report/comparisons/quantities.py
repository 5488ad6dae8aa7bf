"""The quantities of reports: title, unit, rounding and direction of each column of the rows."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from kbench.errors import ConfigError
from kbench.mistyped import nearest
from kbench.run.results.added_scores import NAMED_SCORES, added_score
from kbench.run.results.metrics import METRICS
from kbench.run.results.rows import schema

_ARROWS = {"max": "↑", "min": "↓", "": ""}


@dataclass(frozen=True)
class Quantity:
    """A column of measured values."""

    column: str  # The row's column
    title: str  # Name and unit, as printed in the header
    # Whether the larger or the smaller of two values is better; "" if neither is.
    direction: Literal["max", "min", ""] = "min"
    factor: float = 1.0  # Values in the row's unit times `factor` are in the header's unit
    digits: int = 3  # Number of significant digits
    # Number of digits after the point, which replaces `digits` if given.
    decimals: int | None = None
    # Whether two values are compared by their ratio, not by their difference. Ratios suit positive
    # numbers with a unit, or with a scale that depends on the data.
    ratio: bool = False

    @property
    def header(self) -> str:
        return f"{self.title} {_ARROWS[self.direction]}".rstrip()

    @property
    def sign(self) -> int:
        """1 if more is better, else -1."""
        return 1 if self.direction == "max" else -1

    def decimals_of(self, value: float) -> int:
        """Number of digits after the point of `value`, which is in the row's unit."""
        if self.decimals is not None:
            return self.decimals
        return decimals_for(value * self.factor, self.digits)

    def text(self, value: float, decimals: int | None = None) -> str:
        """The rounded text, in the header's unit, of `value` in the row's unit."""
        n_decimals = self.decimals_of(value) if decimals is None else decimals
        return f"{value * self.factor:.{n_decimals}f}"


# Digits and decimals of all quantities are set by hand.
SCORES = (
    Quantity("accuracy", "accuracy %", "max", factor=100.0, decimals=2),
    Quantity("error", "error %", factor=100.0, decimals=2),
    Quantity("balanced_accuracy", "balanced accuracy %", "max", factor=100.0, decimals=2),
    Quantity("f1", "F1", "max", decimals=4),
    Quantity("roc_auc", "ROC AUC", "max", decimals=4),
    Quantity("average_precision", "average precision", "max", decimals=4),
    Quantity("rmse", "RMSE", digits=4, ratio=True),
    Quantity("mae", "MAE", digits=4, ratio=True),
    Quantity("r2", "R²", "max", decimals=4),
    Quantity("pinball", "pinball loss", digits=4, ratio=True),
    Quantity("coverage", "coverage %", "", factor=100.0, decimals=2),
)

# Costs in order of importance: a narrow terminal drops the last columns first.
COSTS = (
    Quantity("fit_wall_s", "fit s", ratio=True),
    Quantity("predict_wall_s", "predict s", ratio=True),
    Quantity("prediction_cost", "predict × Xw", ratio=True),
    Quantity("fit_cpu_s", "fit CPU s", ratio=True),
    Quantity("peak_bytes", "peak MB", factor=1e-6, ratio=True),
    Quantity("model_bytes", "model MB", factor=1e-6, ratio=True),
)

# Quantities that a table shows only if `columns=` names them.
FURTHER = (
    Quantity("predict_cpu_s", "predict CPU s", ratio=True),
    Quantity("prediction_cost_loop", "predict × row loop", ratio=True),
    Quantity("kernel_error", "kernel error", ratio=True),
    Quantity("objective", "objective", digits=7),
    Quantity("duality_gap", "duality gap"),
    Quantity("n_support", "support vectors", decimals=0, ratio=True),
    Quantity("n_iter", "iterations", decimals=0, ratio=True),
    Quantity("kernel_entries", "kernel entries M", factor=1e-6, ratio=True),
    Quantity("kernel_numbers", "kernel numbers", decimals=0, ratio=True),
    Quantity("n_parameters", "parameters", decimals=0, ratio=True),
)

# Compared seconds, which `kbench.report.comparisons.tables.measured` takes from columns of rows.
SECONDS = (Quantity("fit_s", "fit s", ratio=True), Quantity("predict_s", "predict s", ratio=True))

QUANTITIES = {quantity.column: quantity for quantity in (*SCORES, *FURTHER, *COSTS, *SECONDS)}


def quantity(column: str, option: str = "columns", added: Collection[str] = ()) -> Quantity:
    """The quantity of a row's column, or of one of the `added` scores that rows have.

    option : The option of the report that names the column, for messages

    Raises ConfigError: no quantity has the name; or the option is not `columns`, and methods cannot
    be ranked by the quantity.
    """
    if column in added and column not in QUANTITIES:
        return Quantity(column, column, added_score(column).direction, digits=4)
    if column not in QUANTITIES:
        if column in NAMED_SCORES or re.fullmatch(
            r"top_\d+_accuracy|pinball_loss_.*|.*:.*", column
        ):
            raise ConfigError(
                f"{option}={column}: no row has this score; metrics=[{column}] on the command line "
                "of the runs adds it"
            )
        known = (*QUANTITIES, *added)
        hint = nearest(column, known) or f", should be one of {', '.join(known)}"
        if column in schema().names:
            hint = ": it is not a measured value; kbench.read_rows in Python has it"
        elif option == "columns":
            hint += "; parameters stand beside the name of their method"
        elif not nearest(column, known):
            hint += "; metrics=[NAME] adds another score to a run"
        raise ConfigError(f"{option} names {column!r}{hint}")
    quantity = QUANTITIES[column]
    if not quantity.direction and option != "columns":
        raise ConfigError(
            f"{option}={column}: neither more nor less of it is better; "
            f"metrics=[{column}_error] adds its distance from the quantile"
        )
    return quantity


def leading_score(task: str | None) -> Quantity:
    """The leading score of tables of a task."""
    return QUANTITIES[METRICS[task if task in METRICS else "binary"][0].name]


def decimals_for(value: float, digits: int) -> int:
    """Number of digits after the point for `digits` significant digits of `value`.

    The number is at most six (set by hand).
    """
    if value == 0.0 or not math.isfinite(value):
        return 0
    return min(6, max(0, digits - 1 - math.floor(math.log10(abs(value)))))
