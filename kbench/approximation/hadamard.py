"""The Walsh-Hadamard transform, several vectors at a time.

H_1 = 1, H_2n = [[H_n, H_n], [H_n, -H_n]], entries +-1, not normalised: H H = n I. The transform
works on tiles (length, lanes): a butterfly combines whole rows of a tile, so that every step is a
vector instruction whatever the stride; two levels are done at a time (radix 4), which halves the
traffic.
"""

import numpy as np
from numba import njit

# Vectors in a tile: two AVX-512 registers of float32.
LANES = 32


@njit(["(f4[:,::1],)", "(f8[:,::1],)"], cache=True, fastmath={"contract", "nsz"})
def transform_tile(tile):
    """Transform the columns of tile : (2^q, lanes) in place. O(q 2^q lanes)."""
    n, lanes = tile.shape
    stride = 1
    while 4 * stride <= n:
        for start in range(0, n, 4 * stride):
            for i in range(start, start + stride):
                a, b = tile[i], tile[i + stride]
                c, d = tile[i + 2 * stride], tile[i + 3 * stride]
                for lane in range(lanes):
                    s, t = a[lane] + b[lane], a[lane] - b[lane]
                    u, v = c[lane] + d[lane], c[lane] - d[lane]
                    a[lane], b[lane], c[lane], d[lane] = s + u, t + v, s - u, t - v
        stride *= 4
    if stride < n:
        for i in range(stride):
            a, b = tile[i], tile[i + stride]
            for lane in range(lanes):
                a[lane], b[lane] = a[lane] + b[lane], a[lane] - b[lane]


def walsh_hadamard(X: np.ndarray) -> np.ndarray:
    """H x of each row of X : (n, 2^q), float32 or float64; (n, 2^q). O(n q 2^q) time."""
    n, length = X.shape
    if length & (length - 1) or not length:
        raise ValueError(f"rows of length {length}, but the transform needs a power of two")
    out = np.empty_like(X, order="C")
    for start in range(0, n, LANES):
        tile = X[start : start + LANES].T.copy(order="C")
        transform_tile(tile)
        out[start : start + LANES] = tile.T
    return out
