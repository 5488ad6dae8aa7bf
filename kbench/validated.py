"""scikit-learn's check of rows and targets, after which CSR rows have sorted and distinct columns.

SciPy sorts the entries of a CSR matrix and adds its duplicates where an operation needs that, such
as the largest entry, and does so in the caller's arrays. Estimators do not write to their input,
which may be a read-only memory map, so matrices in another order are copied here, once.
"""

from typing import Any

import scipy.sparse as sp
from sklearn.utils import validation


def validate_data(estimator: Any, X: Any, *targets: Any, **options: Any) -> Any:
    """`sklearn.utils.validation.validate_data`, and CSR rows in canonical format.

    Returns
    -------
    X, or X and y
        X is the caller's where nothing had to be converted.
    """
    checked = validation.validate_data(estimator, X, *targets, **options)
    if isinstance(checked, tuple):
        return canonical(checked[0]), *checked[1:]
    return canonical(checked)


def canonical(X: Any) -> Any:
    """The rows, copied if they are CSR whose columns are not sorted and distinct."""
    if not sp.issparse(X) or X.format != "csr":
        return X
    # A new object with the same arrays: SciPy notes in the object what it finds out about them.
    rows = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows
