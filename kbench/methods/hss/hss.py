"""Common parts of the estimators on an HSS matrix: the fitted matrix, its factors, prediction."""

from collections.abc import Callable
from typing import Any, NamedTuple

import joblib
import numpy as np

from kbench.approximation import HSSMatrix
from kbench.approximation.hss import ShiftedFactor
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Trace

# The shift that makes K~ semidefinite is known to about 1 % (`needed_shift`), and rounding in the
# factors may require more: the first attempt is `_SAFETY_FACTOR` times this shift, and failures
# double it at most `_MAX_DOUBLINGS` times, to 256 times the first attempt. Set by hand.
_SAFETY_FACTOR = 1.1
_MAX_DOUBLINGS = 8


class CompressedKernel:
    """The HSS matrix of an estimator and the factors of its last shift.

    Attributes
    ----------
    shift : float or None. Shift of the last factors.
    """

    def __init__(self, matrix: HSSMatrix, rows_key: str) -> None:
        self.matrix = matrix
        self._rows_key = rows_key
        self._factor: ShiftedFactor | None = None
        self._dtype = ""

    @staticmethod
    def of(estimator: Any, matrix: HSSMatrix, X: Any, trace: Trace) -> "CompressedKernel":
        """Fit a matrix to rows X : (n, d).

        With `warm_start`, `HSSMatrix.fit` reuses the last fit to the same rows as far as possible.

        Parameters
        ----------
        estimator : object with warm_start
        matrix : HSSMatrix
            Will be fitted, so it should be a copy of the estimator's parameter.
        X : (n, d) array or CSR
        trace : Trace
        """
        rows_key = joblib.hash(X) if estimator.warm_start else ""
        previous: CompressedKernel | None = getattr(estimator, "_compressed", None)
        if not estimator.warm_start or previous is None or previous._rows_key != rows_key:
            return CompressedKernel(matrix.fit(X, trace=trace), rows_key)
        matrix.fit(X, like=previous.matrix, trace=trace)
        # Factors stay valid if the nodes are the same.
        return (
            previous
            if matrix.nodes_ is previous.matrix.nodes_
            else CompressedKernel(matrix, rows_key)
        )

    @property
    def shift(self) -> float | None:
        return None if self._factor is None else self._factor.shift

    def factorise(self, shift: float, dtype: str, *, explain: bool = True) -> ShiftedFactor:
        """Factors of K~ + shift I; the last factors if shift and dtype are the same.

        Parameters and errors are those of `HSSMatrix.factorise`.
        """
        if self._factor is None or (self._factor.shift, self._dtype) != (shift, dtype):
            self._factor = None
            self._factor = self.matrix.factorise(shift, dtype, explain=explain)
            self._dtype = dtype
        return self._factor

    def sufficient_shift(self, shift: float, dtype: str) -> float:
        """`shift`, or about the least larger shift for which K~ + shift I can be factorised.

        Raises
        ------
        numpy.linalg.LinAlgError
            A ValueError: the matrix is so indefinite that no shift was found.
        """
        try:
            self.factorise(shift, dtype, explain=False)
        except np.linalg.LinAlgError:
            shift = _SAFETY_FACTOR * max(shift, self.matrix.needed_shift())
            for _ in range(_MAX_DOUBLINGS):
                try:
                    self.factorise(shift, dtype, explain=False)
                except np.linalg.LinAlgError:
                    shift *= 2.0
                else:
                    return shift
            self.factorise(shift, dtype)
        return shift

    def set_attributes(self, estimator: Any, trace: Trace) -> None:
        """Set `hss_bytes_`, `ranks_` and, with `error_rows` rows, `kernel_error_`."""
        estimator.hss_bytes_ = self.matrix.nbytes_
        estimator.ranks_ = self.matrix.ranks_
        if estimator.error_rows:
            with trace.pause():
                estimator.kernel_error_ = self.matrix.relative_error(
                    estimator.error_rows, estimator.random_state
                )

    def keep(self, estimator: Any) -> None:
        """Store the matrix and its factors in the estimator if `warm_start` is set."""
        vars(estimator).pop("_compressed", None)
        if estimator.warm_start:
            estimator.matrix_, estimator._compressed = self.matrix, self


class HSSModel(NamedTuple):
    """A prediction function with the bytes and numbers that it keeps."""

    function: Callable[[Any], np.ndarray]  # X : (u, d) -> (u, m) float64
    nbytes: int
    n_parameters: int


def hss_model(matrix: HSSMatrix, coef: np.ndarray, predict_with: str) -> HSSModel:
    """The functions sum_j coef_j k(x, x_j), coef : (n, m), exact or through the tree."""
    d = matrix.n_features_in_
    if predict_with == "compressed":
        machine = matrix.machine(coef)
        return HSSModel(machine, machine.nbytes, machine.n_centres * (d + coef.shape[1]))
    ordered_coef = coef[matrix.tree_.permutation]
    centres = np.flatnonzero(ordered_coef.any(axis=1))
    centre_coef = ordered_coef[centres]
    dtype = prediction_dtype(matrix.ordered_kernel_, centre_coef)
    expansion = KernelExpansion(matrix.ordered_kernel_, centres, centre_coef, dtype)
    return HSSModel(expansion, expansion.nbytes, len(centres) * (d + coef.shape[1]))
