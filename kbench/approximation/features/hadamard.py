"""The Walsh-Hadamard transform of rows.

H_1 = 1, H_2n = [[H_n, H_n], [H_n, -H_n]], entries +-1, not normalised: H H = n I. The loops compute
two levels at a time (radix 4), which halves the memory traffic. The first four levels have loops of
fixed length, because LLVM does not vectorise strides below the width of a vector register.
"""

import numpy as np
from numba import njit


@njit(inline="always")
def transform_row(row):
    """Transform row : (2^q,) in place. O(q 2^q)."""
    n = len(row)
    stride = 1
    if n >= 16:
        for i in range(n // 4):
            a, b, c, d = row[4 * i], row[4 * i + 1], row[4 * i + 2], row[4 * i + 3]
            s, t, u, v = a + b, a - b, c + d, c - d
            row[4 * i], row[4 * i + 1], row[4 * i + 2], row[4 * i + 3] = s + u, t + v, s - u, t - v
        for i in range(n // 16):
            for j in range(16 * i, 16 * i + 4):
                a, b, c, d = row[j], row[j + 4], row[j + 8], row[j + 12]
                s, t, u, v = a + b, a - b, c + d, c - d
                row[j], row[j + 4], row[j + 8], row[j + 12] = s + u, t + v, s - u, t - v
        stride = 16
    while 4 * stride <= n:
        for start in range(0, n, 4 * stride):
            first, second = row[start : start + stride], row[start + stride : start + 2 * stride]
            third = row[start + 2 * stride : start + 3 * stride]
            fourth = row[start + 3 * stride : start + 4 * stride]
            for j in range(stride):
                s, t = first[j] + second[j], first[j] - second[j]
                u, v = third[j] + fourth[j], third[j] - fourth[j]
                first[j], second[j], third[j], fourth[j] = s + u, t + v, s - u, t - v
        stride *= 4
    if stride < n:
        for j in range(stride):
            row[j], row[j + stride] = row[j] + row[j + stride], row[j] - row[j + stride]


@njit(cache=True, fastmath={"contract", "nsz"})
def _transform(rows):
    for i in range(len(rows)):
        transform_row(rows[i])


def walsh_hadamard(X: np.ndarray) -> np.ndarray:
    """H x of each row of X : (n, 2^q), float32 or float64; (n, 2^q). O(n q 2^q) time."""
    length = X.shape[1]
    if length & (length - 1) or not length:
        raise ValueError(f"rows of length {length}, but the transform needs a power of two")
    out = X.copy(order="C")
    _transform(out)
    return out
