"""Rows that were copied: a model that has seen a row is not tested by its copy.

Held-out errors of models that have copies of the held-out rows among their training rows choose the
model that remembers best. Rows may also be equal by chance, because their columns have few values;
new rows are then equal to known ones as well, and nothing is wrong. Rows count as copies if

    some column has as good as continuous values: half as many as there are distinct rows, and
    all rows that are equal have the same target.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.row_keys import row_keys

# Values of a column, as a fraction of the distinct rows, from which on rows are not equal by
# chance; and the fewest values, below which a column is a code. Set by hand.
_CONTINUOUS, _MIN_VALUES = 0.5, 20


def without_copies(X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The rows that are not copies of earlier ones, and for every row the one that it equals.

    X : (n, d) array or canonical CSR
    y : (n,) or (n, m) targets or labels

    Returns (m,) row numbers in increasing order, and for each row the place of the one that it
    equals among them, (n,); or None if no row is a copy.

    O(n d) for the keys of the rows, O(n log n) for sorting them.
    """
    _, firsts, same = np.unique(row_keys(X), return_index=True, return_inverse=True)
    first = firsts[same]  # the first row that equals each one
    rows, group = np.unique(first, return_inverse=True)
    if len(rows) == len(first) or np.any(y != y[first]):
        return None
    if _most_values_of_a_column(X[rows]) < max(_MIN_VALUES, _CONTINUOUS * len(rows)):
        return None
    return rows, group


def _most_values_of_a_column(X: Any) -> int:
    """The largest number of distinct values of a column, zeros of CSR rows left out."""
    if not sp.issparse(X):
        return max(len(np.unique(X[:, j])) for j in range(X.shape[1]))
    order = np.lexsort((X.data, X.indices))
    columns, values = X.indices[order], X.data[order]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(columns) != 0) | (np.diff(values) != 0)
    return int(np.bincount(columns[new], minlength=1).max())
