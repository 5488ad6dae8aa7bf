"""Class labels as numbers, signs and indicators, and decision values as labels.

With two classes there is one decision function, which is positive for `classes[1]`. With q > 2
classes there are q functions (one-vs-rest models, or scores), and the largest value decides. Models
for pairs of classes have q (q - 1) / 2 functions, each positive for the first class of its pair.
"""

from typing import Any

import numpy as np
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets


def encode(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes of a training set, and the class number of each row.

    Parameters
    ----------
    y : (n,) labels of any type that NumPy can sort

    Returns
    -------
    classes : (q,) sorted
    index : (n,) ints, with `classes[index]` equal to y

    Raises
    ------
    ValueError
        The labels are not discrete (floats that are not whole numbers, for example), or of several
        types, such as texts and None.
    TypeError
        A label is a bytes object.
    """
    dtype_kind = y.dtype.kind if isinstance(y, np.ndarray) and y.ndim == 1 else "O"
    try:
        # Other arrays are discrete, so scikit-learn's slower check is skipped.
        if dtype_kind not in "biuU" and not (dtype_kind == "f" and np.array_equal(y, np.rint(y))):
            check_classification_targets(y)
        classes, index = np.unique(y, return_inverse=True)
    except TypeError:
        labels = np.ravel(y)
        types = sorted({type(label).__name__ for label in labels})
        if any(isinstance(label, bytes) for label in labels):
            raise TypeError(
                "y has labels that are bytes; numpy.char.decode(y) makes texts of them"
            ) from None
        raise ValueError(
            f"y has labels of the types {', '.join(types)}, which have no order; every row should "
            "have a label, and all labels one type"
        ) from None
    return classes, index.reshape(-1)


def require_two(n_classes: int, noun: str = "class") -> None:
    """Raise a ValueError unless there are at least two classes."""
    if n_classes < 2:
        raise ValueError(f"y has {n_classes} {noun}, but 2 classes are needed")


def index_of(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Class number of each label y : (n,) among sorted `classes`; (n,) ints.

    Raises ValueError: a label is not among the classes.
    """
    index = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[index] != y
    if np.any(unknown):
        raise ValueError(
            f"y has the class {y[unknown][0]}, which is not among the known classes: "
            f"{', '.join(map(str, classes))}"
        )
    return index


def index_in_stream(estimator: Any, y: np.ndarray, classes: Any, *, first: bool) -> np.ndarray:
    """Class number of each label of a chunk y : (b,); (b,) ints.

    The first chunk sets `estimator.classes_` from `classes`, after labels and classes are checked.

    Raises ValueError: the first chunk comes without classes, there are fewer than two classes, the
    classes differ from the first chunk's, or a label is unknown.
    """
    if first and classes is not None:
        sorted_classes = np.unique(classes)
        index_of(sorted_classes, y)
        require_two(len(sorted_classes))
    require_same_classes(estimator, classes)
    return index_of(estimator.classes_, y)


def require_same_classes(estimator: Any, classes: Any) -> None:
    """Raise a ValueError if `classes` differ from the first chunk's, or if that chunk has None."""
    _check_partial_fit_first_call(estimator, classes)


def indicators(index: np.ndarray, n_classes: int) -> np.ndarray:
    """Whether each row belongs to the positive class of each decision function; (n, m) bool.

    m is 1 for two classes and `n_classes` otherwise.
    """
    return np.equal.outer(index, [1] if n_classes == 2 else range(n_classes))


def signs(index: np.ndarray, n_classes: int) -> np.ndarray:
    """Targets of the binary problems, (n, m) float64: +1 for the positive class, -1 for others."""
    return np.where(indicators(index, n_classes), 1.0, -1.0)


def winners(values: np.ndarray) -> np.ndarray:
    """Class numbers for decision values (..., m); (...) ints. m is 1 for two classes."""
    if values.shape[-1] == 1:
        return (values[..., 0] > 0).astype(np.intp)
    return np.argmax(values, axis=-1)


def decode(classes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Labels of rows with decision values (u,) for two classes or (u, n_classes); (u,)."""
    if values.ndim == 1:
        # `where` with two arrays of one label keeps the type of strings, and takes half the time
        # that indexing `classes` with the comparison takes.
        return np.where(values > 0, classes[1:], classes[:1])
    return classes[winners(values)]


def probabilities(values: np.ndarray, sigmoids: np.ndarray) -> np.ndarray:
    """Class probabilities for decision values (u, m); (u, q). m is 1 for two classes.

    values : (u, m) decision values
    sigmoids : (m, 2) or (u, m, 2) Platt's A and B of 1 / (1 + exp(A value + B)) for each decision
        function, or for each row and function. With several classes, each row is divided by its
        sum; if the sum is 0, all classes are equally probable.
    """
    with np.errstate(over="ignore"):
        P = 1.0 / (1.0 + np.exp(sigmoids[..., 0] * values + sigmoids[..., 1]))
    if P.shape[1] == 1:
        return np.hstack([1.0 - P, P])
    total = P.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, P / np.where(total > 0.0, total, 1.0), 1.0 / P.shape[1])


# Smallest distance of a pair's probabilities from 0 and 1, as in LIBSVM.
_MIN_PROBABILITY = 1e-7
# Number of rows whose systems of equations are solved together; more take fewer calls of NumPy and
# more memory (the matrices of 26 classes take 23 MiB). Set by hand.
_COUPLED_ROWS = 4096


def coupled_probabilities(values: np.ndarray, sigmoids: np.ndarray, q: int) -> np.ndarray:
    """Class probabilities for the decision values of all pairs of classes; (u, q).

    The probabilities p, whose sum is 1, minimise the sum over pairs (i, j) of
    (r_ji p_i - r_ij p_j)^2, where r_ij is the probability of class i among classes i and j (Wu, Lin
    and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling", JMLR 5,
    2004, the second approach). The optimality conditions are solved directly, in O(u q^3) time.

    values : (u, q (q - 1) / 2), pairs in the order (0, 1), (0, 2), ..., (q - 2, q - 1)
    sigmoids : (q (q - 1) / 2, 2). Platt's A and B of each pair.
    """
    P = np.empty((len(values), q))
    first, second = np.triu_indices(q, 1)
    for start in range(0, len(values), _COUPLED_ROWS):
        block = slice(start, start + _COUPLED_ROWS)
        with np.errstate(over="ignore"):
            r = 1.0 / (1.0 + np.exp(sigmoids[:, 0] * values[block] + sigmoids[:, 1]))
        r = np.clip(r, _MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)
        R = np.zeros((len(r), q, q))
        R[:, first, second], R[:, second, first] = r, 1.0 - r
        # The optimality conditions with the multiplier of the sum as the last unknown.
        A = np.ones((len(r), q + 1, q + 1))
        A[:, :q, :q] = -R * R.transpose(0, 2, 1)
        A[:, range(q), range(q)] = np.square(R).sum(axis=1)
        A[:, q, q] = 0.0
        b = np.zeros((len(r), q + 1, 1))
        b[:, q] = 1.0
        p = np.maximum(np.linalg.solve(A, b)[:, :q, 0], 0.0)
        P[block] = p / p.sum(axis=1, keepdims=True)
    return P
