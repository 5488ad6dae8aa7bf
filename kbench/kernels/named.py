"""Makes kernels from the names and parameters of estimators, ours and scikit-learn's."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import kbench.kernels.functions  # noqa: F401  fills the table
from kbench.kernels.functions.callable import FunctionKernel
from kbench.kernels.kernel import Kernel, parameters
from kbench.kernels.registry import KERNELS, kernel_names

# The names of `sklearn.metrics.pairwise.PAIRWISE_KERNEL_FUNCTIONS`, whose import takes 50 ms.
PAIRWISE_KERNELS = frozenset(
    [
        "additive_chi2",
        "chi2",
        "cosine",
        "laplacian",
        "linear",
        "poly",
        "polynomial",
        "rbf",
        "sigmoid",
    ]
)


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
        whose gamma multiplies a Euclidean distance, not its square, take the square roots of these.

    Raises
    ------
    ValueError
        The name is unknown, gamma is an array, or gamma="scale" is beyond the range of float64.
    """
    if callable(name):
        return FunctionKernel(name)
    if name not in KERNELS:
        raise ValueError(f"kernel is {name!r}, should be one of {', '.join(sorted(KERNELS))}")
    kernel: Any = KERNELS[name]
    ranges = parameters(kernel)
    values: dict[str, Any] = {"degree": degree, "coef0": coef0}
    if "gamma" in ranges:
        values["gamma"] = _gamma(kernel, gamma, X)
    result: Kernel = kernel(**{key: value for key, value in values.items() if key in ranges})
    return result


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
    inverse_square = 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
    if not 0.0 < inverse_square < math.inf or math.isnan(variance):
        raise ValueError(
            f"gamma='scale' is {inverse_square:.2g} for rows of variance {variance:.2g}, beyond "
            "the range of float64: scale the rows"
        )
    return kernel.default_gamma(inverse_square)


def pairwise_names() -> set[str]:
    """Names that `pairwise_kernel` accepts: scikit-learn's, and kbench's kernels of rows."""
    return {*PAIRWISE_KERNELS, *kernel_names("of_rows")}


@dataclass(frozen=True)
class PairwiseValues:
    """Values of `pairwise_kernels` between two blocks of rows; a callable metric gets two rows."""

    metric: str | Callable[..., float]
    parameters: tuple[tuple[str, Any], ...]

    def __call__(self, A: Any, B: Any) -> np.ndarray:
        from sklearn.metrics.pairwise import pairwise_kernels

        values: np.ndarray = pairwise_kernels(
            A, B, metric=self.metric, filter_params=True, **dict(self.parameters)
        )
        return values


def pairwise_kernel(
    name: str,
    X: Any,
    *,
    gamma: float | str | None = None,
    degree: float | None = 3,
    coef0: float | None = 1.0,
) -> Kernel:
    """Return the kernel with one of `pairwise_names` for training rows X : (n, d).

    None means scikit-learn's default: 1 / d for gamma (1 for "chi2"), 3 for degree, 1 for coef0.
    gamma="scale" and "auto" are as in `make_kernel`.
    """
    name = "poly" if name == "polynomial" else name
    degree = 3 if degree is None else degree
    coef0 = 1.0 if coef0 is None else coef0
    has_whole_degree = name != "poly" or (float(degree).is_integer() and degree >= 1)
    is_ours = name in KERNELS and has_whole_degree
    if is_ours and ("gamma" not in parameters(KERNELS[name]) or gamma != 0.0):
        gamma = "auto" if gamma is None else gamma
        whole_degree = int(degree) if name == "poly" else 3
        return make_kernel(name, X, gamma=gamma, degree=whole_degree, coef0=coef0)
    options: dict[str, Any] = {"degree": degree, "coef0": coef0}
    if isinstance(gamma, str):
        gamma = float(make_kernel("rbf", X, gamma=gamma).gamma)  # type: ignore[attr-defined]
    if gamma is not None:
        options["gamma"] = gamma
    return FunctionKernel(PairwiseValues(name, tuple(options.items())))
