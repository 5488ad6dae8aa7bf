"""Checks of the weights of rows and of classes, for every estimator that takes them.

Weights are finite. The weight of a row is positive or zero: `kbench.validated` leaves out rows of
weight zero before `fit`. Estimators that replace scikit-learn's support vector machines
(`KernelSVC`, `KernelSVR`, `KernelNuSVC`, `KernelNuSVR`, `KernelOneClassSVM`) treat a negative
weight as zero, as scikit-learn does; in these and in `KernelRidge` gamma="scale" counts all rows,
as in scikit-learn. The weight of a class is positive, and so is the weight of at least one of its
rows, because a class without weight would have no decision function; `SVC` refuses it, too.
"""

from numbers import Number
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_array

from kbench.validated import LARGEST_TARGET, SMALLEST_TARGET, require_unmasked

# Messages of scikit-learn, whose estimator checks compare them.
NO_WEIGHT = "Invalid input - all samples have zero or negative weights."
ONE_CLASS = "Invalid input - all samples with positive weights belong to the same class."


def checked_weights(sample_weight: Any, n: int, *, negative_is_zero: bool = False) -> np.ndarray:
    """Weights of n rows; (n,) float64, a copy of the caller's.

    sample_weight : number, (n,) or None. A number is the weight of every row, None is 1.
    negative_is_zero : Whether negative weights count as zero; otherwise they are refused

    Raises ValueError: a weight is infinite, nan, masked or negative, all weights are zero, or their
    number is not n.
    """
    if sample_weight is None:
        return np.ones(n)
    if isinstance(sample_weight, Number):
        weight = np.full(n, sample_weight, np.float64)
    else:
        require_unmasked("sample_weight", sample_weight)
        # `copy=True` of `check_array` would return pandas' arrays, which may be read-only.
        weight = np.array(
            check_array(
                sample_weight,
                ensure_2d=False,
                dtype=np.float64,
                ensure_all_finite=False,
                input_name="sample_weight",
            )
        )
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight.shape == {weight.shape}, expected {(n,)}! It must be a number or "
            "have one weight for each row"
        )
    is_finite = np.isfinite(weight)
    if not is_finite.all():
        raise ValueError(f"sample_weight contains {weight[~is_finite][0]}; weights must be finite")
    if negative_is_zero:
        np.maximum(weight, 0.0, out=weight)
    elif weight.min(initial=0.0) < 0.0:
        raise ValueError(
            f"Negative values in sample_weight, the lowest is {weight.min():g}; weights must be "
            "zero or positive"
        )
    if not weight.any():
        raise ValueError(NO_WEIGHT)
    return weight


def relative_weights(weight: np.ndarray) -> np.ndarray:
    """The weights (n,) as multiples of their mean, even if their sum would overflow or vanish."""
    relative: np.ndarray = weight / weight.max()
    return relative / relative.mean()


def require_weight_range(weight: np.ndarray, name: str = "sample_weight") -> None:
    """ValueError for weights (n,) that are too large or too small for float32 coefficients."""
    largest = float(weight.max())
    if not SMALLEST_TARGET <= largest <= LARGEST_TARGET:
        raise ValueError(
            f"the largest {name} is {largest:.3g}, should be between {SMALLEST_TARGET:g} "
            f"and {LARGEST_TARGET:g}, because coefficients are float32; scale the weights"
        )


def require_weighted_classes(classes: np.ndarray, index: np.ndarray, weight: np.ndarray) -> None:
    """Raise a ValueError unless each class has a row of positive weight.

    classes : (q,). index : (n,) class number of each row. weight : (n,).
    """
    has_weight = np.bincount(index, weight > 0.0, minlength=len(classes)) > 0.0
    if np.count_nonzero(has_weight) == 1:
        raise ValueError(ONE_CLASS)
    if not has_weight.all():
        raise ValueError(
            f"all rows of class {classes[~has_weight][0]} have a weight of zero; leave them out"
        )


def class_weights(class_weight: dict | str | None, classes: np.ndarray, y: Any) -> np.ndarray:
    """Factor of each class from scikit-learn's `compute_class_weight`, checked; (q,) float64.

    class_weight : dict, "balanced" or None
    classes : (q,) sorted labels
    y : (n,) labels

    Raises ValueError: a weight is not positive and finite.
    """
    weights = np.asarray(compute_class_weight(class_weight, classes=classes, y=y), np.float64)
    return checked_class_weights(weights, classes)


def checked_class_weights(weights: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return weights : (q,); raise a ValueError if one is not positive and finite."""
    invalid = np.flatnonzero(~(np.isfinite(weights) & (weights > 0.0)))
    if len(invalid):
        raise ValueError(
            f"class_weight of class {classes[invalid[0]]} is {weights[invalid[0]]:g}; weights of "
            "classes must be positive and finite"
        )
    return weights
