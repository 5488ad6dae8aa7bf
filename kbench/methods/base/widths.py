"""`gamma` as an array of d widths, one for each feature: here a width is the gamma of a feature.

The kernel of gamma_1, ..., gamma_d is that of gamma = 1 between rows whose columns are multiplied
by gamma_j^(1/p), for a kernel whose gamma multiplies the power p of a distance
(`Kernel.gamma_power`; p = 2 if gamma multiplies an inner product). Equal widths are one gamma, and
a feature of width 0 is ignored.
Estimators scale the rows at the start of `fit` and before predictions, so that solvers and machines
see rows and a kernel of one width.
"""

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.kernels.kernel import parameters
from kbench.kernels.registry import KERNELS, kernel_names
from kbench.validated import require_unmasked


def with_widths(constraints: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The constraints of the parameters of an estimator whose gamma may be an array."""
    return {**constraints, "gamma": [*constraints["gamma"], "array-like"]}


def has_widths(gamma: Any) -> bool:
    """Whether gamma has a width for each feature."""
    return not (gamma is None or isinstance(gamma, (str, Real)))


def gamma_of_scaled_rows(gamma: Any) -> Any:
    """The gamma of the kernel between scaled rows: 1 if `gamma` is an array of widths."""
    return 1.0 if has_widths(gamma) else gamma


def scaled_rows(estimator: Any, X: Any) -> Any:
    """Training rows X : (n, d), dense or CSR, whose columns are scaled if `gamma` is an array.

    Sets or deletes `_column_scale` of the estimator, by which `scaled_new_rows` scales later rows.
    Scaled rows are a copy.

    Raises ValueError: gamma is an array of another length or has a negative or infinite width, or
    the kernel has no gamma.
    """
    vars(estimator).pop("_column_scale", None)  # an earlier fit may have set it
    if has_widths(estimator.gamma):
        estimator._column_scale = _column_scale(estimator.gamma, estimator.kernel, X)
    return scaled_new_rows(estimator, X)


def scaled_new_rows(estimator: Any, X: Any) -> Any:
    """Rows X : (u, d) to predict, whose columns are scaled as those of the training rows were."""
    scale = vars(estimator).get("_column_scale")
    if scale is None:
        return X
    if scale.shape != X.shape[1:]:  # the model file is damaged
        raise ValueError(f"the widths have shape {scale.shape}, the rows {X.shape[1]} columns")
    scale = scale.astype(X.dtype)
    if not sp.issparse(X):
        return X * scale
    return type(X)((X.data * scale[X.indices], X.indices, X.indptr), shape=X.shape)


def require_one_width(estimator: Any) -> None:
    """Raise a ValueError if `gamma` is an array, which a fit to rows in chunks does not support."""
    vars(estimator).pop("_column_scale", None)  # an earlier fit may have set it
    if has_widths(estimator.gamma):
        raise ValueError("gamma is an array of widths, which needs all rows in memory, not chunks")


def _column_scale(gamma: Any, kernel: Any, X: Any) -> np.ndarray:
    """(d,) float64 factors of the columns of X : (n, d)."""
    kernel_name = "poly" if isinstance(kernel, str) and kernel == "polynomial" else kernel
    supported = [name for name in kernel_names("of_rows") if "gamma" in parameters(KERNELS[name])]
    if not isinstance(kernel_name, str) or kernel_name not in supported:
        raise ValueError(
            f"gamma is an array of widths, which kernel={kernel!r} does not have; "
            f"{', '.join(supported)} do"
        )
    require_unmasked("gamma", gamma)
    try:
        widths = np.asarray(gamma, np.float64)
    except (TypeError, ValueError):
        widths = np.full((), np.nan)
    d = X.shape[1]
    if widths.shape != (d,):
        raise ValueError(
            f"gamma is {gamma!r} of shape {np.shape(gamma)}, should be a number, or {d} numbers, "
            "one for each column of X"
        )
    invalid = np.flatnonzero(~(np.isfinite(widths) & (widths >= 0.0)))
    if invalid.size:
        raise ValueError(
            f"gamma[{invalid[0]}] is {widths[invalid[0]]:g}, should be a finite number from 0"
        )
    if not widths.any():
        raise ValueError("gamma is 0 for every column of X; one at least should be above 0")
    scale: np.ndarray = widths ** (1.0 / KERNELS[kernel_name].gamma_power)
    return scale
