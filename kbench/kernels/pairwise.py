"""Kernels by the names and parameters of `sklearn.metrics.pairwise.pairwise_kernels`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.kernels.functions.callable import FunctionKernel
from kbench.kernels.kernel import Kernel, parameters
from kbench.kernels.named import make_kernel
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


def pairwise_names() -> set[str]:
    """Names that `pairwise_kernel` takes: scikit-learn's and those of kbench's kernels of rows."""
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
    """The kernel of one of `pairwise_names` for training rows X : (n, d).

    None is scikit-learn's default: 1 / d for gamma (1 for "chi2"), 3 for degree, 1 for coef0. The
    values "scale" and "auto" of gamma are those of `make_kernel`.
    """
    name = "poly" if name == "polynomial" else name
    degree = 3 if degree is None else degree
    coef0 = 1.0 if coef0 is None else coef0
    whole = name != "poly" or (float(degree).is_integer() and degree >= 1)
    own = name in KERNELS and whole
    if own and ("gamma" not in parameters(KERNELS[name]) or gamma != 0.0):
        width = "auto" if gamma is None else gamma
        order = int(degree) if name == "poly" else 3
        return make_kernel(name, X, gamma=width, degree=order, coef0=coef0)
    given: dict[str, Any] = {"degree": degree, "coef0": coef0}
    if isinstance(gamma, str):
        gamma = float(make_kernel("rbf", X, gamma=gamma).gamma)  # type: ignore[attr-defined]
    if gamma is not None:
        given["gamma"] = gamma
    return FunctionKernel(PairwiseValues(name, tuple(given.items())))
