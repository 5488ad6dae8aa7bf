"""scikit-learn's checks of parameters, rows and targets; CSR rows get sorted, distinct columns.

Some operations of SciPy, such as `max`, sort the entries of a CSR matrix and add duplicates in the
caller's arrays. Estimators do not write to their input, which may be a read-only memory map, so
this module makes one copy of a matrix whose entries are not sorted or have duplicates.

Estimators that make CSR rows dense during a fit have a class attribute

    dense_rows : (copies, rows)    number of float64 copies, and maximum number of rows of a copy

so that a fit that needs more memory than is free is refused before it allocates anything. Both
numbers are measured: `tests/methods/test_wide_rows.py` compares them with the memory of fits.

`fit` does not see rows of weight zero. They therefore influence nothing that the rows determine,
such as gamma="scale", clusters and random draws. Classes that take the place of scikit-learn's
classes, which see these rows, set

    sees_unweighted_rows = True    (unweighted rows are those of weight zero)

The first chunk of a stream, or `fit`, fixes the parameters of the stream. Classes with
`partial_fit` have `_is_first_chunk()`, and name the parameters that every chunk reads in

    read_by_every_chunk : set of str
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context, is_classifier, is_regressor
from sklearn.utils import Tags, _safe_indexing, validation
from sklearn.utils._param_validation import Hidden, Interval, StrOptions

from kbench import process_memory
from kbench.chunked import FLOATS, ChunkedRows, is_dask
from kbench.errors import quoted

# Guard: range of the largest absolute target, and of the largest weight of models with a ridge.
# Many models keep coefficients, which are targets divided by a ridge, as float32, whose range is
# 1e-38 to 3e38.
SMALLEST_TARGET, LARGEST_TARGET = 1e-30, 1e30
# Guard: range of the largest absolute entry of rows. Its square does not underflow, and a sum of
# 1e8 such squares, as in a distance, does not overflow.
_ENTRY_RANGE = {np.dtype(np.float32): (1e-15, 1e15), np.dtype(np.float64): (1e-150, 1e150)}
# Attributes that hold indices of training rows, in an array or a list of arrays. If `fit` saw only
# rows of positive weight, `fit_context` makes them indices among all rows.
_ROW_INDEX_ATTRIBUTES = {"support_", "representatives_", "samples_", "centres_"}

# Constraints of real parameters, for `_parameter_constraints`.
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")


def real(low: float | None, high: float | None, closed: str) -> Interval:
    """Constraint: a real number between two bounds; closed : "left", "right", "both", "neither"."""
    return Interval(Real, low, high, closed=closed)


def integer(low: int, high: int | None = None) -> Interval:
    """Constraint: a whole number from `low` to `high`, both included, or from `low` on."""
    return Interval(Integral, low, high, closed="left" if high is None else "both")


def choice(*names: str) -> StrOptions:
    """Constraint: one of these texts."""
    return StrOptions(set(names))


# Constraints of parameters that many estimators share.
_SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "cache_mb": [NOT_NEGATIVE],
    "class_weight": [choice("balanced"), dict, None],
    "dtype": [choice("float32", "float64")],
    "error_rows": [integer(0)],
    "fit_intercept": ["boolean"],
    "max_iter": [integer(1)],
    "max_time": [NOT_NEGATIVE, None],
    "memory_mb": [POSITIVE],
    "n_clusters": [integer(1)],
    "n_components": [integer(1)],
    # joblib would refuse 0 as well, but only during the fit.
    "n_jobs": [integer(1), Interval(Integral, None, -1, closed="right"), None],
    "n_landmarks": [integer(1)],
    "probability": ["boolean", Hidden(choice("deprecated"))],
    "random_state": ["random_state"],
    "shrinking": ["boolean"],
    "tol": [POSITIVE],
    "validation_fraction": [real(0, 1, closed="neither")],
    "warm_start": ["boolean"],
}


def usual(*names: str) -> dict[str, list[Any]]:
    """Constraints of parameters for `_parameter_constraints`, by their names."""
    return {name: _SHARED_CONSTRAINTS[name] for name in names}


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Callable], Callable]:
    """Decorate `fit` or `partial_fit` as scikit-learn's `_fit_context` does, and undo failed fits.

    A fit that fails or is interrupted restores the attributes from before the fit, unlike
    scikit-learn's estimators, which keep some attributes of each model. Changes that `partial_fit`
    makes inside arrays are not undone.

    Only classes with the attribute `accepts_chunks` receive rows in chunks.
    """
    sklearn_decorator = _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorate(method: Callable) -> Callable:
        fit = sklearn_decorator(method)

        @functools.wraps(method)
        def all_or_nothing(estimator: Any, *arguments: Any, **options: Any) -> Any:
            rows = arguments[0] if arguments else options.get("X")
            if isinstance(rows, ChunkedRows) and not hasattr(type(estimator), "accepts_chunks"):
                raise needs_memory(estimator)
            attributes = vars(estimator)
            before = attributes.copy()
            stream_parameters = _stream_parameters(estimator)
            if method.__name__ == "partial_fit" and not estimator._is_first_chunk():
                _require_equal(attributes.get("_stream_parameters"), stream_parameters)
            # Sigmoids of the former model would give wrong probabilities.
            attributes.pop("_sigmoids", None)
            weighted_rows = None
            if method.__name__ == "fit":
                # Not every fit sets every attribute, and those of the former model would stay.
                for name in before:
                    if name.endswith("_") and not name.startswith("_"):
                        del attributes[name]
            if method.__name__ == "fit" and not getattr(estimator, "sees_unweighted_rows", False):
                arguments, options, weighted_rows = _weighted_rows(estimator, arguments, options)
            try:
                fitted = fit(estimator, *arguments, **options)
            except BaseException:
                attributes.clear()
                attributes.update(before)
                raise
            if weighted_rows is not None:
                for name in _ROW_INDEX_ATTRIBUTES & attributes.keys():
                    is_list = isinstance(indices := attributes[name], list)
                    attributes[name] = (
                        [weighted_rows[n] for n in indices] if is_list else weighted_rows[indices]
                    )
            if stream_parameters is not None:
                attributes["_stream_parameters"] = stream_parameters
            return fitted

        return all_or_nothing

    return decorate


def _stream_parameters(estimator: Any) -> dict[str, Any] | None:
    """The parameters that a stream keeps, and those of its nested estimators; None if the class has
    no `partial_fit`."""
    if not hasattr(type(estimator), "partial_fit"):
        return None
    return {
        name: type(value).__name__ if hasattr(value, "get_params") else value
        for name, value in estimator.get_params().items()
        if name not in estimator.read_by_every_chunk
    }


def _require_equal(before: dict[str, Any] | None, now: dict[str, Any] | None) -> None:
    """Raise a ValueError if a parameter that a stream keeps is another one than before.

    before : None for a stream of an older version of kbench, which kept no parameters
    """
    before, now = before or {}, now or {}
    for name in sorted(before.keys() & now.keys()):
        old, new = before[name], now[name]
        if old is not new and not np.array_equal(old, new):
            raise ValueError(
                f"{name} was {quoted(repr(old))} for the rows before, and is "
                f"{quoted(repr(new))}; partial_fit continues with the parameters of the first "
                f"rows: set {name} back, or start a new model (sklearn.base.clone)"
            )


def _weighted_rows(
    estimator: Any, arguments: tuple, options: dict[str, Any]
) -> tuple[tuple, dict[str, Any], np.ndarray | None]:
    """The arguments of `fit` for the rows of positive weight, and the indices of these rows.

    The arguments are unchanged, and the indices None, if all weights are positive, if the
    estimator's own checks have to refuse the weights (because, for example, a class has only rows
    of weight zero), for rows of Dask, and with kernel="precomputed", whose columns belong to all
    rows.
    """
    values = dict(zip(("X", "y", "sample_weight"), arguments, strict=False)) | options
    unchanged = arguments, options, None
    weight, kernel = values.get("sample_weight"), getattr(estimator, "kernel", None)
    is_precomputed = isinstance(kernel, str) and kernel == "precomputed"
    if weight is None or is_precomputed or is_dask(values.get("X")):
        return unchanged
    require_unmasked("sample_weight", weight)
    try:
        weight = np.asarray(weight, np.float64)
        rows, y = np.flatnonzero(weight), np.asarray(values.get("y"))
        if len(rows) in (0, len(weight)) or weight.shape != y.shape[:1]:
            return unchanged
        keeps_classes = not is_classifier(estimator) or len(np.unique(y[rows])) == len(np.unique(y))
    except (TypeError, ValueError):  # weights or labels that cannot be compared
        return unchanged
    if not keeps_classes or not (np.isfinite(weight) & (weight >= 0.0)).all():
        return unchanged
    X = values["X"]
    values["X"] = _safe_indexing(X.tocsr() if sp.issparse(X) else X, rows)
    values["y"], values["sample_weight"] = _safe_indexing(values["y"], rows), weight[rows]
    return (), values, rows


def needs_memory(estimator: Any) -> ValueError:
    """The error of an estimator that cannot be fitted to rows in chunks."""
    return ValueError(
        f"{type(estimator).__name__} needs all rows in memory, not in chunks: pass arrays, or take "
        "an estimator whose accepts_chunks is true (docs/scale.md)"
    )


class TakesSparseRows:
    """Mixin that tells scikit-learn that an estimator takes CSR rows; it precedes BaseEstimator."""

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags


def validate_data(estimator: Any, X: Any, *targets: Any, **options: Any) -> Any:
    """`sklearn.utils.validation.validate_data` of floats, with CSR rows in canonical format.

    Returns X, or X and y. Dense X is the caller's object if nothing had to be converted.

    Raises ValueError, TypeError: as scikit-learn's.
    Raises MemoryError: the fit would make more dense rows than fit into memory.
    """
    for name, values in zip(("X", "y"), (X, *targets), strict=False):
        require_unmasked(name, values, "fill them, or leave their rows out")
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], **options}
    checked = validation.validate_data(estimator, X, *targets, **options)
    if options.get("reset", True):
        rows = checked[0] if isinstance(checked, tuple) else checked
        _require_memory(estimator, rows)
        rows = _within_range(rows)
        checked = (rows, *checked[1:]) if isinstance(checked, tuple) else rows
        if isinstance(checked, tuple) and is_regressor(estimator):
            X, y = checked
            # As in scikit-learn's regressors, numbers given as texts, and dates, become floats.
            y = y if y.dtype.kind in "fiub" else y.astype(np.float64)
            require_target_range(y)
            checked = X, y
    if isinstance(checked, tuple):
        return canonical(checked[0]), *checked[1:]
    return canonical(checked)


def require_unmasked(name: str, values: Any, remedy: str = "fill them") -> None:
    """Raise a ValueError if an array of the caller has masked values, which NumPy would unmask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values; {remedy}")


def _require_memory(estimator: Any, X: Any) -> None:
    """Raise a MemoryError if the dense rows that a fit makes of CSR rows do not fit into memory."""
    copies, rows = getattr(type(estimator), "dense_rows", (0.0, 0))
    if not copies or not sp.issparse(X):
        return
    n, d = min(X.shape[0], rows), X.shape[1]
    needed, available = 8.0 * copies * n * d, process_memory.available_bytes()
    if needed > available:
        raise MemoryError(
            f"{type(estimator).__name__} makes {n} dense rows of {d} columns, which takes about "
            f"{needed / 2**30:.3g} GiB of the {available / 2**30:.3g} that are free; lower the "
            "number of columns (TruncatedSVD), or use KernelSVC or KernelSVR, which keep CSR rows"
        )


def _within_range(X: Any) -> Any:
    """The rows, as float64 if squares of their float32 values leave the range of float32.

    Raises ValueError: squares leave the range of float64.
    """
    values = X.data if sp.issparse(X) else X
    if getattr(values, "dtype", None) not in FLOATS or not values.size:
        return X
    largest = float(max(values.max(), -values.min()))
    smallest_entry, largest_entry = _ENTRY_RANGE[values.dtype]
    if largest == 0.0 or smallest_entry <= largest <= largest_entry:
        return X
    if values.dtype == np.float32:
        return X.astype(np.float64)
    raise ValueError(
        f"the largest absolute value of X is {largest:.3g}, should be 0 or between "
        f"{smallest_entry:g} and {largest_entry:g}, because squares leave the range of float64; "
        "scale the rows"
    )


@contextmanager
def checked_arrays(estimator: Any) -> Iterator[None]:
    """Suppress scikit-learn's warning that X has no column names, while `fit` predicts for arrays
    that it made of a data frame."""
    names = vars(estimator).pop("feature_names_in_", None)
    try:
        yield
    finally:
        if names is not None:
            estimator.feature_names_in_ = names


def require_target_range(y: Any) -> None:
    """Raise a ValueError for targets whose squares or coefficients may overflow or underflow."""
    values = np.asarray(y)
    if values.dtype.kind not in "fiu" or not values.size:
        return
    largest = float(np.abs(values).max())
    if largest > 0.0 and not SMALLEST_TARGET <= largest <= LARGEST_TARGET:
        raise ValueError(
            f"the largest absolute value of y is {largest:.3g}, should be 0 or between "
            f"{SMALLEST_TARGET:g} and {LARGEST_TARGET:g}, because coefficients are float32 in "
            "many models; scale the targets"
        )


def canonical(X: Any) -> Any:
    """The rows, copied if they are CSR whose columns are not sorted and distinct."""
    if not sp.issparse(X) or X.format != "csr":
        return X
    # SciPy stores the outcome of this check in the object, so the caller's object is not checked,
    # but a new one with the same arrays.
    rows = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows
