"""Test scores of a model during its fit: curves against seconds and against rows seen.

A method that learns step by step reports `samples`, the number of rows seen so far, and `predict`,
the function of its present model, to its trace. The method does not get the test rows, and the
clock of the fit is stopped during an evaluation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.run.results.metrics import METRICS

# Ratio of the rows seen at two successive evaluations. A smaller ratio gives more points of a
# curve, and costs more predictions. Set by hand.
_RATIO = 2.0**0.5
# Maximum number of test rows for a curve. 20,000 rows tell an error rate of 5 % to .15 points (one
# standard error); more rows make a run wait longer for its evaluations than for its fit: 271,617
# test rows of cod-rna take 17 s each time, with 59,535 training rows. Set by hand.
_CURVE_ROWS = 20_000


class LearningCurves:
    """Curves of errors on rows X : (u, d) with targets y : (u,) during a fit.

    There is a curve for each metric of `task` that is better if it is smaller: `test_error`, or
    `test_rmse` and `test_mae`. Of more than 20,000 rows, 20,000 at equal distances are used.
    """

    def __init__(
        self,
        task: str,
        X: Any,
        y: np.ndarray,
        in_unit: Callable[[np.ndarray], np.ndarray] = lambda values: values,
    ) -> None:
        """in_unit : A function that converts targets or predictions to the unit of the scores."""
        y = in_unit(np.asarray(y))
        n = len(y)
        self._rows = None if n <= _CURVE_ROWS else np.arange(_CURVE_ROWS) * n // _CURVE_ROWS
        self._X, self._y = (X, y) if self._rows is None else (X[self._rows], y[self._rows])
        self._in_unit = in_unit
        self._metrics = [spec for spec in METRICS[task] if spec.direction == "min"]
        self._seen = self._due = 0.0
        self._seconds: list[float] = []
        self._samples: list[float] = []
        self._values: list[list[float]] = []

    def observe(self, seconds: float, state: dict[str, Any]) -> None:
        """Evaluate a state of the fit after `_RATIO` times the rows of the last evaluation."""
        predict: Callable[[Any], np.ndarray] | None = state.get("predict")
        if predict is None:
            return
        self._seen = float(state["samples"])
        if self._seen >= self._due:
            self._due = _RATIO * self._seen
            self._add(seconds, predict(self._X))

    def close(self, seconds: float, predicted: np.ndarray) -> None:
        """Add the predictions of the fitted model, unless the fit reported no `predict`."""
        if self._seen:
            self._add(seconds, predicted if self._rows is None else predicted[self._rows])

    def _add(self, seconds: float, predicted: np.ndarray) -> None:
        self._seconds.append(seconds)
        self._samples.append(self._seen)
        predicted = self._in_unit(predicted)
        self._values.append([spec.function(self._y, predicted) for spec in self._metrics])

    def curves(self) -> list[dict[str, Any]]:
        """The curves in the form that the results folder takes."""
        return [
            {
                "curve": f"test_{spec.name}",
                "x_name": name,
                "x": x,
                "value": [row[k] for row in self._values],
            }
            for k, spec in enumerate(self._metrics)
            for name, x in (("seconds", self._seconds), ("samples", self._samples))
            if x
        ]
