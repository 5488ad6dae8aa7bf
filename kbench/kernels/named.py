"""Kernels by the names and parameters of estimators."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import kbench.kernels.functions  # noqa: F401  fills the table
from kbench.kernels.functions.callable import FunctionKernel
from kbench.kernels.kernel import Kernel, parameters
from kbench.kernels.registry import KERNELS


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
    name : str or callable
        A name of `kbench.kernels.KERNELS`; `python -m kbench.kernels` shows them. Parameters that
        the kernel does not have are ignored.
    X : (n, d) dense or CSR
        Training rows; they determine `gamma="scale"`, 1 / (d Var(X)), and "auto", 1 / d. Kernels
        whose gamma multiplies a Euclidean distance, not its square, take the roots of these.
    """
    if callable(name):
        return FunctionKernel(name)
    if name not in KERNELS:
        raise ValueError(f"kernel is {name!r}, should be one of {', '.join(sorted(KERNELS))}")
    kernel: Any = KERNELS[name]
    own = parameters(kernel)
    given: dict[str, Any] = {"degree": degree, "coef0": coef0}
    if "gamma" in own:
        given["gamma"] = _gamma(kernel, gamma, X)
    made: Kernel = kernel(**{key: value for key, value in given.items() if key in own})
    return made


def _gamma(kernel: type[Kernel], gamma: float | str, X: Any) -> float:
    if not isinstance(gamma, str):
        if np.ndim(gamma):
            raise ValueError("gamma is an array, should be a number: scale the columns of X")
        return float(gamma)
    if gamma == "auto":
        return kernel.default_gamma(1.0 / X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            X = X.astype(np.float64)
            variance = float(X.multiply(X).mean() - X.mean() ** 2)
        else:
            variance = float(X.var(dtype=np.float64))
    width = 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
    if not 0.0 < width < math.inf or math.isnan(variance):
        raise ValueError(
            f"gamma='scale' is {width:.2g} for rows of variance {variance:.2g}, beyond "
            "the range of float64: scale the rows"
        )
    return kernel.default_gamma(width)
