"""Numbers that identify rows: equal rows have equal keys, nearly all others different keys."""

from typing import Any

import numpy as np

# Number of entries whose keys are computed at a time; as float64 they take 2 MiB. Set by hand.
_BLOCK_ENTRIES = 2**18


def row_keys(X: Any, exponent: int = 0) -> np.ndarray:
    """A hash of each row X : (n, d), array or CSR, by the bits of its float64 values; (n,) uint64.

    Keys are sums of random odd numbers times the bits of values, modulo 2^64 (Dietzfelbinger et
    al., J. Algorithms 1997). Dense and CSR rows of equal values have equal keys. O(n d) time.

    exponent : values are first divided by 2^exponent, to remove a unit that is a power of two
    """
    n, d = X.shape
    factors = np.random.RandomState(0).randint(2**63, size=d, dtype=np.uint64) * 2 + 1

    def hashed(block: np.ndarray, column_factors: np.ndarray) -> np.ndarray:
        values = block.astype(np.float64)
        # Adding 0.0 turns -0.0 into 0.0.
        bits = ((np.ldexp(values, -exponent) if exponent else values) + 0.0).view(np.uint64)
        return (bits ^ (bits >> np.uint64(32))) * column_factors

    if not isinstance(X, np.ndarray):
        sums = np.zeros(len(X.data) + 1, np.uint64)
        np.cumsum(hashed(X.data, factors[X.indices]), out=sums[1:])
        return sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    rows = max(1, _BLOCK_ENTRIES // max(d, 1))
    keys = np.empty(n, np.uint64)
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        hashed(X[block], factors).sum(axis=1, out=keys[block])
    return keys
