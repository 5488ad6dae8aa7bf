"""Checks of rows that come after a first fit: rows to predict, or later chunks of a stream."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kbench.chunked import FLOATS
from kbench.methods.base.widths import scaled_new_rows
from kbench.validated import validate_data


def checked_rows(estimator: BaseEstimator, X: Any) -> Any:
    """Rows X : (u, d) as a float array or CSR with the number of features of `fit`, scaled by the
    widths of the kernel if these are an array.

    A plain float array of the right width takes less than a microsecond. Everything else goes
    through scikit-learn's check, which takes about 100 microseconds: as long as the prediction of
    thousands of rows by a cheap model.

    Raises NotFittedError, ValueError: as in scikit-learn, except for non-finite entries, which are
    not checked.
    """
    attributes = vars(estimator)
    if (
        type(X) is np.ndarray
        and X.dtype in FLOATS
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == attributes.get("n_features_in_")
        and "feature_names_in_" not in attributes
    ):
        return X if "_column_scale" not in attributes else scaled_new_rows(estimator, X)
    check_is_fitted(estimator)
    X = validate_data(estimator, X, ensure_all_finite=False, reset=False)
    return scaled_new_rows(estimator, X)


def append_rows(X: Any, chunk: Any) -> Any:
    """Rows X : (s, d) and the rows (b, d) of a chunk; an array or CSR like the chunk."""
    if not sp.issparse(chunk):
        return np.vstack([X.toarray() if sp.issparse(X) else X, chunk])
    return sp.vstack([X if sp.issparse(X) else sp.csr_array(X), chunk]).tocsr()


def first_non_finite(*arrays: Any) -> int | None:
    """Index of the first row with a value that is not finite; None if all values are finite."""
    for array in arrays:
        try:
            values = array.toarray() if sp.issparse(array) else np.asarray(array, np.float64)
        except (TypeError, ValueError):
            continue
        if values.ndim and values.size:
            is_finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
            if not is_finite.all():
                return int(is_finite.argmin())
    return None
