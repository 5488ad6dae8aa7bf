"""Measure the prediction of a linear model as in LIBLINEAR: by row, by entry, in float64.

DC-Pred++ reports prediction times as multiples of this loop. numba compiles it, so it is measured
only for methods that import numba, and not for the classes of scikit-learn.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.cost import median_s

# Rows of a measured call. More rows make numba's call overhead (below 1 us) smaller in proportion,
# and take longer. Set by hand.
_ROWS = 500


@njit(cache=True)
def _predict_row_by_row(starts, indices, entries, weights, values):
    for i in range(values.shape[0]):
        for o in range(values.shape[1]):
            values[i, o] = 0.0
        for k in range(starts[i], starts[i + 1]):
            w = weights[indices[k]]
            for o in range(w.shape[0]):
                values[i, o] += w[o] * entries[k]


def row_loop_s(X: Any, n_outputs: int) -> float:
    """Median seconds per row of the loop over nonzero entries.

    X : (n, d) dense or CSR. n_outputs : 1, or the number of classes if there are more than two.
    """
    n, d = X.shape
    rows = sp.csr_array(X[np.arange(_ROWS) % n])
    starts, indices = rows.indptr.astype(np.int32), rows.indices.astype(np.int32)
    entries, weights = rows.data.astype(np.float64), np.ones((d, n_outputs))
    values = np.empty((_ROWS, n_outputs))
    seconds = median_s(lambda: _predict_row_by_row(starts, indices, entries, weights, values))
    return seconds / _ROWS
