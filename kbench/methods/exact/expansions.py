"""The rows of the small-problem solver, and the expansions by which KernelSVC, KernelSVR predict.

The small-problem solver takes the rows that `small_rows` makes, the large-problem solver a
`KernelMatrix`. Their models differ in how they hold the support vectors.
"""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.functions.rbf import RBF
from kbench.kernels.kernel import squared_norms
from kbench.methods.exact.callable_kernel import ValueCentres, WholeRowsKernel
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.prediction.expansion import error_unit, sample_centres
from kbench.prediction.shared_centres import (
    FEW_CENTRES,
    GaussianCentres,
    MatrixCentres,
    PairExpansion,
    SharedExpansion,
)
from kbench.solvers.small import GaussianRows, MatrixRows

# CSR rows with at most this many entries, zeros included, are made dense: 64 MiB of float64. Code
# for dense rows is faster; the limit bounds their memory. Set by hand.
_DENSE_ENTRIES = 2**23
# Largest rounding error of a value, in units of the margin for pairs of classes and of `error_unit`
# for other functions: if float32 may exceed it, prediction computes in float64, which takes twice
# the time. For pairs only the sign of the value counts, and at 1e-3 few data sets need float64.
# Other values are returned to the user, and 1e-5 keeps them equal for batches of any size. Set by
# hand.
_PAIR_ERROR, _VALUE_ERROR = 1e-3, 1e-5


def is_dense_gaussian(kernel: Kernel, X: Any) -> bool:
    """Whether the kernel is Gaussian, and the rows are dense or small enough to be made dense."""
    may_be_dense = not sp.issparse(X) or math.prod(X.shape) <= _DENSE_ENTRIES
    return isinstance(kernel, RBF) and may_be_dense


def small_rows(kernel: Kernel, X: Any, order: np.ndarray) -> GaussianRows | MatrixRows:
    """Kernel values between the rows of X : (n, d) in this order, for the small-problem solver."""
    if isinstance(kernel, RBF) and is_dense_gaussian(kernel, X):
        X = X[order]
        return GaussianRows(X.toarray() if sp.issparse(X) else X, kernel.gamma)
    return MatrixRows(KernelMatrix(kernel, X, np.float64), order)


def interior_note(n_interior: int, n_problems: int, n_iter: int) -> str:
    """The entry of `notes_` about the problems that the interior-point method has solved."""
    return (
        f"{n_interior} of {n_problems} problems by an interior-point method in {n_iter} iterations"
    )


def shared_expansion(
    kernel: Kernel, X: Any, support: np.ndarray, coef: np.ndarray, matrix: KernelMatrix | None
) -> KernelExpansion | SharedExpansion:
    """The functions sum_i coef_i k(x_i, .) of the rows `support` of X; coef : (m, s).

    matrix : the kernel matrix of the large-problem solver; None after the small-problem solver.
    """
    if matrix is None:
        max_error = _VALUE_ERROR
        if len(support) > FEW_CENTRES:
            float64_centres = gaussian_centres(kernel, X, support, coef, 0.0)
            max_error *= error_unit(
                matmul(float64_centres.values(X[sample_centres(support)]), coef.T)
            )
        return SharedExpansion(gaussian_centres(kernel, X, support, coef, max_error), coef.T)
    if isinstance(kernel, WholeRowsKernel):
        return SharedExpansion(ValueCentres(support), coef.T)
    return KernelExpansion(matrix, support, coef.T, prediction_dtype(matrix, coef.T, support))


def pair_expansion(
    kernel: Kernel,
    X: Any,
    support: np.ndarray,
    coef: np.ndarray,
    n_support: np.ndarray,
    matrix: KernelMatrix | None,
) -> PairExpansion:
    """As `shared_expansion`, for pairs of classes with n_support : (k,) support vectors each."""
    if matrix is None:
        centres: Any = gaussian_centres(kernel, X, support, coef, _PAIR_ERROR)
    elif isinstance(kernel, WholeRowsKernel):
        centres = ValueCentres(support)
    else:
        centres = MatrixCentres(matrix, support, prediction_dtype(matrix, coef.T))
    return PairExpansion(centres, coef, n_support)


def gaussian_centres(
    kernel: Kernel, X: Any, support: np.ndarray, coef: np.ndarray, max_error: float
) -> GaussianCentres:
    """Support vectors in float32, or in float64 if rounding errors of f could exceed max_error."""
    assert isinstance(kernel, RBF)
    norm = math.sqrt(squared_norms(coef).max(initial=0.0))
    return GaussianCentres(X[support], kernel.gamma, error=max_error, norm=norm)
