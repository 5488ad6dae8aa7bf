"""Rows that were copied: the copy of a training row does not test a model.

If copies of held-out rows are among the training rows, the held-out error favours the model that
memorises best. Rows may also be equal by chance, because their columns have few values; new rows
then equal training rows as well, and the held-out error is right. Rows count as copies if

    a column has nearly continuous values: at least half as many as there are distinct rows, and
    all equal rows have the same target.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.row_keys import row_keys

# A column has nearly continuous values if the number of its distinct values is at least this
# fraction of the number of distinct rows, and at least _MIN_VALUES: a column with fewer values is
# categorical. Set by hand.
_CONTINUOUS_FRACTION, _MIN_VALUES = 0.5, 20


def without_copies(X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Find the rows that are not copies of earlier rows; None if none counts as a copy.

    X : (n, d) array or canonical CSR
    y : (n,) or (n, m) targets or labels

    Returns the numbers of these rows in increasing order, (m,), and for each row of X the position
    among these of the row that it equals, (n,).

    O(n d) for the keys of the rows, O(n log n) for sorting them.
    """
    _, first_indices, key_index = np.unique(row_keys(X), return_index=True, return_inverse=True)
    first_equal = first_indices[key_index]  # for each row, the first row that equals it
    rows, group = np.unique(first_equal, return_inverse=True)
    if len(rows) == len(first_equal) or np.any(y != y[first_equal]):
        return None
    if _most_values_of_a_column(X[rows]) < max(_MIN_VALUES, _CONTINUOUS_FRACTION * len(rows)):
        return None
    return rows, group


def _most_values_of_a_column(X: Any) -> int:
    """Return the largest number of distinct values of a column, without zeros of CSR rows."""
    if not sp.issparse(X):
        return max(len(np.unique(X[:, j])) for j in range(X.shape[1]))
    order = np.lexsort((X.data, X.indices))
    columns, values = X.indices[order], X.data[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(columns) != 0) | (np.diff(values) != 0)
    return int(np.bincount(columns[is_new], minlength=1).max())
