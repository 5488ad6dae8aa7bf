"""The last fit of a self-tuning support vector machine, within its limits.

    expect what all rows take: seconds per squared row of the search's models, times n^2
    if it may be stopped: hold some rows out, and fit as many others as the time allows
    if it was stopped:    keep it if its error on the rows held out is at most the search's, of
                          fewer rows; else keep the model of least error on them: the stopped one,
                          one of so few rows that it can be solved, or a constant (under a time
                          budget the last two are fitted beforehand)

so that a stopped fit is kept only after its predictions have been compared with others.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kbench.errors import warn, without_warnings
from kbench.trace import Deadline, Trace
from kbench.width_search import constants
from kbench.width_search.search import WidthSearchResult
from kbench.width_search.tasks import SearchTargets

# Training rows of the model that stands for the search's best one if the search had no time to
# measure any: as many as in the search's grid.
_FALLBACK_ROWS = math.isqrt(constants.GRID_VALUES // 2)
# Rows that a constant is fitted to. The standard error of the median of 128 normal targets is
# sqrt(pi / 2 / 128), a ninth of their deviation. Set by hand.
_CONSTANT_ROWS = 128
# C at which only the intercept is left: `_CONSTANT_ROWS` kernel values of up to 1 times this C add
# up to less than the rounding of a float32 prediction.
_VANISHING_C = 2.0**-40


@dataclass
class FinalFit:
    """The last fit: its training set, its limits and its callbacks."""

    # Takes a number of rows and the seconds that are left; returns an unfitted estimator for as
    # many rows, and why it was chosen.
    make_model: Callable[[int, float | None], tuple[Any, str]]
    # Takes parameters (limits, C) in place of the chosen ones; returns an unfitted exact estimator.
    make_exact_model: Callable[..., Any]
    # Takes a fitted estimator and indices of rows; returns the losses of its predictions there.
    losses: Callable[[Any, np.ndarray], np.ndarray]
    # all rows (n, d), their targets (n,) and their weights (n,)
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    result: WidthSearchResult
    task: SearchTargets
    deadline: Deadline
    rng: np.random.Generator
    trace: Trace

    def run(self) -> tuple[Any, str]:
        """Fit, and return the estimator that is kept and the reason; warns if it was stopped."""
        n, order = len(self.y), self.task.order(self.rng)
        model, reason = self.make_model(n, self.deadline.seconds_left())
        rows, held_out = np.arange(n), order[:0]
        fallbacks: dict[str, Any] = {}
        if self._may_stop(model):
            training, held_out = self._split(order)
            if self.deadline.seconds_left() is not None:
                # After the final fit there may be no time left for these models.
                fallbacks = self._fallbacks(training, held_out)
            model, reason = self.make_model(len(training), self.deadline.seconds_left())
            rows = np.sort(training)
            # Only an exact model leaves out rows for lack of time; a model of clusters takes all.
            if isinstance(model, type(self.make_exact_model())) and (
                n_rows := self._n_affordable(training)
            ) < len(training):
                rows = np.sort(training[:n_rows])
                model, reason = self.make_model(n_rows, self.deadline.seconds_left())
                reason += f"; {n_rows} of {n} rows, as many as the time allows"
        model = self._fit(model, rows)
        if model.converged_:
            return model, reason
        if not len(held_out) and self.result.validation is not None:
            # No stop was expected, so that the final fit has seen these rows: they favour it.
            held_out = self.result.validation
        if len(held_out):
            stopped_error = lowest_error = self.losses(model, held_out).mean()
            # Models of fewer rows had the search's error: a model that is as good needs no rival.
            if not fallbacks and not stopped_error <= min(
                self.result.error, self.task.constant_error
            ):
                needed = self.task.representatives(order)
                training = np.concatenate([needed, np.setdiff1d(order, [*held_out, *needed])])
                fallbacks = self._fallbacks(training, held_out)
            for name, fallback in fallbacks.items():
                error = self.losses(fallback, held_out).mean()
                # If the lowest error is NaN, any other model takes its place.
                if not lowest_error <= error:
                    lowest_error, model = error, fallback
                    reason = (
                        f"{name}, of {fallback.shape_fit_[0]} rows, with an error of {error:.3g} "
                        f"on {len(held_out)} rows; the final fit to {len(rows)} rows was stopped "
                        f"and has {stopped_error:.3g}"
                    )
        if not model.converged_:
            warn(
                f"{reason}; it was stopped at a violation of {model.violation_:.2g}, above "
                f"tol={model.tol:.2g}",
                ConvergenceWarning,
            )
        return model, reason

    def _split(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows to be fitted and the rows held out; each class has a row among the former."""
        needed = self.task.representatives(order)
        order = np.concatenate([needed, order[~np.isin(order, needed)]])
        # More than a tenth of few rows would cost the final model too much. Set by hand.
        n_held_out = min(constants.CHECKED_ROWS, len(order) // 10)
        return order[: len(order) - n_held_out], order[len(order) - n_held_out :]

    @property
    def _expected_seconds(self) -> float:
        """Seconds of a fit to all rows; infinite if the search had no time for a model."""
        rate = self.result.seconds_per_square
        return rate * len(self.y) ** 2 if np.isfinite(self.result.error) else np.inf

    def _may_stop(self, model: Any) -> bool:
        """Whether the limits of an unfitted estimator may end its fit before it is solved."""
        left, max_iter = self.deadline.seconds_left(), getattr(model, "max_iter", -1)
        factor = 1 if self.result.solved else constants.UNSOLVED_STEPS
        too_many_steps = 0 <= max_iter < factor * self.task.steps_per_row * len(self.y)
        return too_many_steps or (
            left is not None and constants.TIME_MARGIN * self._expected_seconds > left
        )

    def _n_affordable(self, training: np.ndarray) -> int:
        """Number of these rows that can be fitted in the time left, at least one of each class."""
        left, n = self.deadline.seconds_left(), len(training)
        if left is None or constants.TIME_MARGIN * self._expected_seconds <= left:
            return n
        n_rows = _FALLBACK_ROWS
        if np.isfinite(self._expected_seconds):
            n_rows = math.isqrt(int(left / self.result.seconds_per_square))
        return min(max(n_rows, 2, len(self.task.representatives(training))), n)

    def _fallbacks(self, training: np.ndarray, held_out: np.ndarray) -> dict[str, Any]:
        """Fitted models that may replace one that was stopped, keyed by their names in `reason`.

        A tiny C gives the constant of least loss: the function tends to 0 with C, and only the
        intercept is left. Half a step for each row takes all coefficients to their bounds.
        """
        rows = np.union1d(training[:_CONSTANT_ROWS], self.task.representatives(training))
        fallbacks = {
            "constant of least loss": self._fit(self.make_exact_model(C=_VANISHING_C), rows)
        }
        if self.deadline.seconds_left() is None or np.isfinite(self._expected_seconds):
            fallbacks["exact model of fewer rows"] = self._model_of_fewer_rows(held_out, training)
        return fallbacks

    def _model_of_fewer_rows(self, held_out: np.ndarray, training: np.ndarray) -> Any:
        """The model of the chosen gamma and C for rows that can be solved, in half of the time.

        With a deadline these are the rows of the search. Without one they are as many as can take
        `UNSOLVED_STEPS` times the search's steps for each row within `FINAL_WORK`.
        """
        left, needed = self.deadline.seconds_left(), self.task.representatives(training)
        steps = constants.UNSOLVED_STEPS * self.task.steps_per_row
        rows = training[:_FALLBACK_ROWS]
        if left is None:
            rows = training[: math.isqrt(int(constants.FINAL_WORK / steps))]
        elif self.result.training is not None:
            rows = np.setdiff1d(self.result.training, held_out)
        rows = np.union1d(rows, needed)
        max_time = None if left is None else 0.5 * left
        return self._fit(self.make_exact_model(max_iter=steps * len(rows), max_time=max_time), rows)

    def _fit(self, model: Any, rows: np.ndarray) -> Any:
        weight = None if self.weight is None else self.weight[rows]
        with without_warnings(ConvergenceWarning):  # `run` warns of what is kept
            return model.fit(self.X[rows], self.y[rows], weight, trace=self.trace)
