"""Base of the regressions that solve the exact dual."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from kbench.errors import warn
from kbench.methods.base.training_kernel import require_dense_values
from kbench.methods.base.weights import checked_weights
from kbench.methods.exact.exact_dual import ExactDual
from kbench.methods.exact.interior import Dual
from kbench.methods.exact.svc_conventions import finite_C, warn_of_unbounded
from kbench.trace import Trace
from kbench.validated import fit_context, require_target_range

# Fraction of the standard deviation of the targets above which `tol` is said to be loose. On 400
# rows of a sine, a 0.9 quantile with C = 1 covers .89 at this fraction, .84 at .5 and .74 at 1;
# self-tuning models stop at .1 to .2 of it. Set by hand.
_LOOSE_FRACTION = 0.3


class DualRegression(RegressorMixin, ExactDual):
    """Base of regressions that fit one or a few functions.

    A subclass has `_duals`, and the parameters C and fit_intercept besides those of `ExactDual`.
    """

    # True for classes that replace `SVR`: `fit` sees rows of weight 0; negative weights count as 0.
    sees_unweighted_rows: ClassVar[bool] = False

    C: float
    fit_intercept: bool

    def _duals(self, y: np.ndarray, C: np.ndarray) -> Sequence[Dual]:
        """The problems of targets y : (n,) with finite C : (n,), the parameter times weights."""
        raise NotImplementedError

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Solve the dual.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) targets
        sample_weight : (n,), optional
            Multiplies C row by row. Rows of weight 0 are left out; `KernelSVR` also leaves out rows
            of negative weight.
        trace : Trace, optional
            Receives the phases, and objective and violation while the problem is solved.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter or weight is out of range, or a precomputed matrix is not square
            or not symmetric.
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            require_dense_values(self.kernel, X)
            X, y = self._checked_rows_and_targets(X, y, y_numeric=True)
            y, C = np.asarray(y, np.float64), np.full(len(y), float(self.C))
            require_target_range(y)
            if sample_weight is not None:
                C *= checked_weights(
                    sample_weight, len(y), negative_is_zero=self.sees_unweighted_rows
                )
            duals = self._duals(y, finite_C(C))
        self._warn(self._fit_duals(X, duals, trace, coupled=self.fit_intercept))
        self._warn_of_loose_tol(y)
        return self

    def _warn_of_loose_tol(self, y: np.ndarray) -> None:
        """Warn, and add a note, if `tol` is so near the targets' deviation that a constant may
        satisfy it."""
        deviation = float(y.std())
        if self.tol > _LOOSE_FRACTION * deviation > 0.0:
            message = (
                f"tol={self.tol:g} is {self.tol / deviation:.2g} times the deviation of y, "
                "in whose unit it is, so that the model may be constant; set "
                f"tol={1e-3 * deviation:.1g}, or give the targets in another unit"
            )
            self.notes_ = (*self.notes_, message)
            warn(message)

    def _warn(self, reasons: set[str]) -> None:
        warn_of_unbounded(self.C, self.dual_coef_)
        super()._warn(reasons)

    def predict(self, X: Any) -> np.ndarray:
        """f(x) + b of rows X : (u, d), with kernel="precomputed" (u, n_train); (u,) float64."""
        values: np.ndarray = self._expansion_values(X)[:, 0] + self.intercept_[0]
        return values
