"""Positions of the largest of an array of floats, in code that LLVM vectorises.

LLVM does not vectorise a running maximum of floats. But the bits of floats, read as integers, are
in the same order, once the bits after a set sign bit are flipped. LLVM vectorises a running maximum
of integers, and the search for its first position.

With maxima of floats, covtype_30k takes 2.6 times as long, and every other problem takes longer,
too (`scripts/ablate_svm.py`, `float_order`).
"""

import numpy as np
from numba import njit, types
from numba.extending import overload

# Fast-math flags of the loops over points. "ninf" is not among them, because lift and drop of
# `directions` may be infinite.
FLAGS = {"contract", "nsz", "arcp", "nnan"}


def as_integers(x: np.ndarray) -> np.ndarray:
    """Return the bits of x : (q,) float32 or float64 as integers; a view."""
    return x.view(np.int32 if x.dtype == np.float32 else np.int64)


def bits_of(x: np.floating) -> np.integer:
    """Return the bits of one float32 or float64 as an integer."""
    return x.view(np.int32 if x.dtype == np.float32 else np.int64)


@overload(bits_of)
def _compile_bits_of(x):
    if x == types.float32:
        return lambda x: np.float32(x).view(np.int32)
    return lambda x: np.float64(x).view(np.int64)


@njit(fastmath=FLAGS, nogil=True)
def position_of(value, bits):
    """Return the first position of `value` in bits : (q,), or q if it is not there."""
    q = np.int32(bits.shape[0])
    position = q
    for k in range(q):
        position = min(position, np.int32(k) if bits[k] == value else q)
    return position


@njit(fastmath=FLAGS, nogil=True)
def position_of_sum(value, a, b):
    """Return the first position k at which a[k] + b[k] has the bits `value`, or q."""
    q = np.int32(a.shape[0])
    position = q
    for k in range(q):
        position = min(position, np.int32(k) if bits_of(a[k] + b[k]) == value else q)
    return position


@njit(fastmath=FLAGS, nogil=True)
def position_of_largest(bits):
    """Return the first position of the largest of q floats >= 0, given their bits : (q,)."""
    largest = bits.dtype.type(0)
    for k in range(bits.shape[0]):
        largest = max(largest, bits[k])
    return position_of(largest, bits)


@njit(fastmath=FLAGS, nogil=True)
def ordered(number, like):
    """Return an integer that is ordered as the float is; applied twice, it returns the bits.

    number : bits of the float; like : any array of integers of its type
    """
    integer = like.dtype.type
    sign = integer(8 * like.itemsize - 1)
    magnitude_bits = integer(~(integer(1) << sign))
    return integer(number ^ integer(integer(number >> sign) & magnitude_bits))
