"""Kernels by the names and parameters of estimators."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.kernels.exponential import RBF, Laplacian
from kbench.kernels.functions import (
    FunctionKernel,
    Kernel,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
)
from kbench.kernels.matern import Matern12


def make_kernel(
    name: str | Callable[[Any, Any], np.ndarray],
    X: Any,
    *,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
) -> Kernel:
    """Return the kernel of an estimator's parameters, with the meaning of `sklearn.svm.SVC`.

    Parameters
    ----------
    name : {"rbf", "laplacian", "matern12", "poly", "linear", "sigmoid", "precomputed"} or callable
    X : (n, d) dense or CSR
        Training rows; they determine `gamma="scale"`, 1 / (d Var(X)), and "auto", 1 / d.
    """
    if callable(name):
        return FunctionKernel(name)
    if name == "precomputed":
        return Precomputed()
    if name == "linear":
        return Linear()
    width = _bandwidth(gamma, X)
    if name == "rbf":
        return RBF(width)
    if name == "laplacian":
        return Laplacian(width)
    if name == "matern12":
        return Matern12(width)
    if name == "sigmoid":
        return Sigmoid(width, coef0)
    if name == "poly":
        return Polynomial(width, degree, coef0)
    raise ValueError(f"kernel is {name!r}, which make_kernel does not know")


def _bandwidth(gamma: float | str, X: Any) -> float:
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if sp.issparse(X):
            X = X.astype(np.float64)
            variance = X.multiply(X).mean() - X.mean() ** 2
        else:
            variance = X.var(dtype=np.float64)
        width = float(np.float64(1.0) / (X.shape[1] * variance)) if variance > 0.0 else 1.0
    if not 0.0 < width < np.inf or np.isnan(variance):
        raise ValueError(
            f"gamma='scale' is {width:.2g} for rows of variance {variance:.2g}, beyond the range of "
            "float64: scale the rows"
        )
    return width
