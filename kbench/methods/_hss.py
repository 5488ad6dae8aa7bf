"""What estimators on a compressed kernel matrix share: parameters, another use, prediction."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.utils._param_validation import Interval

from kbench.approximation import HSSMatrix
from kbench.approximation.hss import ShiftedFactor
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Trace

# Parameters of the matrix by what depends on them.
_ORDERING = (
    "preset",
    "tree",
    "balanced",
    "leaf_size",
    "n_neighbours",
    "n_trees",
    "random_state",
)
_COMPRESSION = (
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "rel_tol",
    "abs_tol",
    "trace_tol",
    "max_rank",
    "max_near",
    "n_far",
    "sketch",
    "memory_mb",
    "dtype",
)

# By how much a shift exceeds the least eigenvalue's size, and how often it is doubled after that.
_SAFETY = 1.1
_ATTEMPTS = 8

HSS_CONSTRAINTS = {
    name: HSSMatrix._parameter_constraints[name] for name in (*_ORDERING, *_COMPRESSION)
} | {"error_rows": [Interval(Integral, 0, None, closed="left")]}


class CompressedKernel:
    """The compressed kernel matrix of an estimator and its last factors.

    Attributes
    ----------
    matrix : HSSMatrix
    shift : float or None
        Of the last factors.
    """

    def __init__(self, matrix: HSSMatrix, rows_key: str) -> None:
        self.matrix = matrix
        self._rows_key = rows_key
        self._factor: ShiftedFactor | None = None
        self._dtype = ""

    @staticmethod
    def of(estimator: Any, X: Any, trace: Trace) -> "CompressedKernel":
        """That of the last `fit` where `warm_start` allows it, otherwise from rows X : (n, d)."""
        parameters = {name: getattr(estimator, name) for name in (*_ORDERING, *_COMPRESSION)}
        key = joblib.hash(X) if estimator.warm_start else ""
        last: CompressedKernel | None = getattr(estimator, "_compressed", None)
        like = None
        if estimator.warm_start and last is not None and last._rows_key == key:
            before = last.matrix.get_params()
            if all(before[name] == parameters[name] for name in _ORDERING):
                if all(before[name] == parameters[name] for name in _COMPRESSION):
                    return last
                like = last.matrix
        matrix = HSSMatrix(**parameters).fit(X, like=like, trace=trace)
        return CompressedKernel(matrix, key)

    @property
    def shift(self) -> float | None:
        return None if self._factor is None else self._factor.shift

    def factorise(self, shift: float, dtype: str, *, explain: bool = True) -> ShiftedFactor:
        """Factors of K~ + shift I; the last ones where these are asked for again.

        Parameters and errors as in `HSSMatrix.factorise`.
        """
        if self._factor is None or (self._factor.shift, self._dtype) != (shift, dtype):
            self._factor = None
            self._factor = self.matrix.factorise(shift, dtype, explain=explain)
            self._dtype = dtype
        return self._factor

    def enough(self, shift: float, dtype: str) -> float:
        """`shift`, or the least one beyond it, about, for which K~ + shift I can be factorised.

        Raises
        ------
        numpy.linalg.LinAlgError
            A ValueError: the matrix is so indefinite that no shift was found.
        """
        try:
            self.factorise(shift, dtype, explain=False)
        except np.linalg.LinAlgError:
            # Rounding in the factors may ask for more than the eigenvalue does.
            shift = _SAFETY * max(shift, self.matrix.needed_shift())
            for _ in range(_ATTEMPTS):
                try:
                    self.factorise(shift, dtype, explain=False)
                except np.linalg.LinAlgError:
                    shift *= 2.0
                else:
                    return shift
            self.factorise(shift, dtype)
        return shift

    def describe(self, estimator: Any, trace: Trace) -> None:
        """Set `hss_bytes_`, `ranks_` and, on `error_rows` rows, `kernel_error_` of an estimator."""
        estimator.hss_bytes_ = self.matrix.nbytes_
        estimator.ranks_ = self.matrix.ranks_
        vars(estimator).pop("kernel_error_", None)
        if estimator.error_rows:
            with trace.pause():
                estimator.kernel_error_ = self.matrix.relative_error(
                    estimator.error_rows, estimator.random_state
                )

    def keep(self, estimator: Any) -> None:
        """Stay with the estimator for its next `fit`, where `warm_start` asks for it."""
        if estimator.warm_start:
            estimator._compressed = self
        elif hasattr(estimator, "_compressed"):
            del estimator._compressed


class Machine(NamedTuple):
    """What prediction keeps."""

    function: Callable[[Any], np.ndarray]  # X : (u, d) -> (u, m) float64
    nbytes: int
    n_parameters: int


def hss_machine(matrix: HSSMatrix, coef: np.ndarray, predict_with: str) -> Machine:
    """The functions sum_j coef_j k(x, x_j), coef : (n, m), exact or through the tree."""
    d = matrix.n_features_in_
    if predict_with == "compressed":
        local = matrix.expansion(coef)
        return Machine(local, local.nbytes, local.n_centres * (d + coef.shape[1]))
    ordered = coef[matrix.tree_.permutation]
    places = np.flatnonzero(ordered.any(axis=1))
    values = ordered[places]
    dtype = prediction_dtype(matrix.kernel_, values)
    expansion = KernelExpansion(matrix.kernel_, places, values, dtype)
    return Machine(expansion, expansion.nbytes, len(places) * (d + coef.shape[1]))
