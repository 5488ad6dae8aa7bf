"""Numbers by which equal rows are found: equal for equal rows, different for nearly all others."""

from typing import Any

import numpy as np

# Entries whose keys are computed at a time, 2 MB; set by hand.
_BATCH = 2**18


def row_keys(X: Any, exponent: int = 0) -> np.ndarray:
    """A hash of each row X : (n, d), array or CSR, by the bits of its float64 values; (n,) uint64.

    Sums of odd numbers times bits, modulo 2^64 (Dietzfelbinger et al., J. Algorithms 1997). Dense
    and CSR rows of the same values have the same keys. O(n d).

    exponent : values count in units of 2^exponent
    """
    n, d = X.shape
    factors = np.random.RandomState(0).randint(2**63, size=d, dtype=np.uint64) * 2 + 1

    def hashed(block: np.ndarray, of_columns: np.ndarray) -> np.ndarray:
        values = block.astype(np.float64)
        # 0.0 is added to make -0.0 positive.
        bits = ((np.ldexp(values, -exponent) if exponent else values) + 0.0).view(np.uint64)
        return (bits ^ (bits >> np.uint64(32))) * of_columns

    if not isinstance(X, np.ndarray):
        sums = np.zeros(len(X.data) + 1, np.uint64)
        np.cumsum(hashed(X.data, factors[X.indices]), out=sums[1:])
        return sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    rows = max(1, _BATCH // max(d, 1))
    keys = np.empty(n, np.uint64)
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        hashed(X[block], factors).sum(axis=1, out=keys[block])
    return keys
