"""Limits, trace and result of all randomised solvers of kernel ridge regression.

A solver estimates its residual from values that its steps compute. Once the estimate after a pass
over the rows is at most `tol`, the residual is computed in float64; if it is above `tol`, the
solver continues.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.trace import Deadline, Trace

Predictor = Callable[[np.ndarray], Callable[[Any], np.ndarray]]

# Gradient steps diverge if the relative residual, 1 at coefficients 0, is above this. Set by hand.
DIVERGED = 3.0
# Kernel values become float64 if their rounding is more than this fraction of a gradient or of a
# residual. Set by hand.
ROUNDING = 0.1
# Rows at which a solution that did not converge is measured: more rows take more kernel values,
# fewer measure less precisely. 2,000 rows give the residual to about 2 %. Set by hand.
MEASURED_ROWS = 2000
# Rows of a block of the residual; the time limit is checked between blocks. Set by hand.
RESIDUAL_ROWS = 4096
# Number of states that the trace gets in a pass over the rows. Set by hand.
_STATES_PER_PASS = 10


@dataclass(frozen=True)
class DescentResult:
    """Outcome of a randomised solver."""

    x: np.ndarray  # (k, m) float64
    n_iter: int  # Number of steps, or of passes if the solver's `max_iter` counts passes
    # (m,) float64: relative residual before x was multiplied (`cg.best_multiple`). The solver's
    # docstring states the system, and the rows at which the residual is measured.
    residual: np.ndarray
    converged: bool  # Whether all residuals are at most `tol`
    stop_reason: str  # {"tol", "max_iter", "max_time"}
    chosen: dict[str, float]  # Parameters that the solver chose itself


class Steps(ABC):
    """Limits, trace and result of a randomised solver of a system with x : (k, m).

    Parameters
    ----------
    kernel : Its dtype is the precision of the steps
    tol : Bound on the relative residual of every right-hand side, set by hand
    max_iter : Largest number of steps
    deadline : No further step begins after it; it includes the set-up of the solver
    trace : Ten times in a pass it receives the largest estimated residual, the number of rows
        visited, the number of kernel values and the model.
    predictor : x -> the function that predicts with these coefficients, for the trace
    """

    def __init__(
        self,
        kernel: KernelMatrix,
        *,
        tol: float = 1e-4,
        max_iter: int,
        deadline: Deadline | None = None,
        trace: Trace | None = None,
        predictor: Predictor | None = None,
        rng: np.random.RandomState,
    ) -> None:
        trace = Trace() if trace is None else trace
        self.kernel, self.rng = kernel, rng
        self.n_iter = 0
        self._exact = kernel.astype(np.float64)
        self._tol = self._threshold = tol
        self._max_iter, self._trace = max_iter, trace
        self._deadline = Deadline(None, trace) if deadline is None else deadline
        self._predictor = predictor
        self._n_visited = self._n_shown = 0
        # The estimate at which rounding was last checked; coefficients 0 have the estimate 1.
        self._estimate_checked = 2.0
        self._result: tuple[np.ndarray, str] | None = None

    @abstractmethod
    def estimate_after_pass(self, x: np.ndarray) -> np.ndarray | None:
        """Estimated relative residual of x, (m,), at the end of a pass over the rows; else None."""

    @abstractmethod
    def estimate(self) -> np.ndarray:
        """The last estimate of the relative residual; (m,)."""

    @abstractmethod
    def residual(self, x: np.ndarray) -> np.ndarray | None:
        """Relative residual of x in float64, (m,); None if the deadline passes before the end."""

    @abstractmethod
    def discard_estimate(self) -> None:
        """Discard an estimate that was below `tol` although the residual was not."""

    def goes_on(self, x: np.ndarray) -> bool:
        """Whether another step follows x; shows x to the trace."""
        estimate = self.estimate_after_pass(x)
        if estimate is not None and estimate.max() <= self._threshold:
            residual = self.residual(x)
            if residual is None:
                return False
            if residual.max() <= self._tol:
                self._result = residual, "tol"
                return False
            self._threshold *= 0.5  # The estimate was too low. The factor is set by hand.
            self.discard_estimate()
        if self.n_iter >= self._max_iter or (self.n_iter and self._deadline.passed):
            return False
        if self._n_visited * _STATES_PER_PASS >= (self._n_shown + 1) * len(self.kernel):
            self._n_shown = self._n_visited * _STATES_PER_PASS // len(self.kernel)
            self._show(x, self.estimate())
        return True

    def _rounding_check_is_due(self) -> bool:
        """Whether to check the rounding of float32 kernel values: the estimate has halved."""
        estimate = self.estimate().max()
        if self.kernel is self._exact or not estimate <= 0.5 * self._estimate_checked:
            return False
        self._estimate_checked = estimate
        return True

    @property
    def _limit(self) -> str:
        """The limit that ended the steps before `tol` did."""
        return "max_iter" if self.n_iter >= self._max_iter else "max_time"

    def _show(self, x: np.ndarray, residual: np.ndarray) -> None:
        predict = {} if self._predictor is None else {"predict": self._predictor(x)}
        self._trace(
            residual=float(residual.max()),
            kernel_entries=self.kernel.n_entries,
            samples=self._n_visited,
            **predict,
        )
