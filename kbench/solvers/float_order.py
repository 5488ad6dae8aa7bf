"""Where floats are largest, found in vector code.

The compiler does not vectorise a running maximum of floats. But their bits, read as integers, order
as they do (where the sign is set, once the other bits are flipped); a running maximum of integers
vectorises, and so does the first place at which it stands.
"""

import numpy as np
from numba import njit, types
from numba.extending import overload

FLAGS = {"contract", "nsz", "arcp", "nnan"}


def as_integers(x: np.ndarray) -> np.ndarray:
    """The bits of x : (q,) float32 or float64; a view."""
    return x.view(np.int32 if x.dtype == np.float32 else np.int64)


def bits_of(x: np.floating) -> np.integer:
    """The bits of a float32 or float64, as an integer."""
    return x.view(np.int32 if x.dtype == np.float32 else np.int64)


@overload(bits_of)
def _compile_bits_of(x):
    if x == types.float32:
        return lambda x: np.float32(x).view(np.int32)
    return lambda x: np.float64(x).view(np.int64)


@njit(fastmath=FLAGS, nogil=True)
def place_of(value, bits):
    """First place of `value` among (q,) integers of its type; q where it is not there."""
    q = np.int32(bits.shape[0])
    place = q
    for k in range(q):
        place = min(place, np.int32(k) if bits[k] == value else q)
    return place


@njit(fastmath=FLAGS, nogil=True)
def place_with_room(value, bits, room):
    """The same among the places k at which room[k] > 0."""
    q, nothing = np.int32(bits.shape[0]), room.dtype.type(0)
    place = q
    for k in range(q):
        place = min(place, np.int32(k) if bits[k] == value and room[k] > nothing else q)
    return place


@njit(fastmath=FLAGS, nogil=True)
def place_of_largest(bits):
    """First place of the largest of (q,) floats >= 0, given their bits."""
    largest = bits.dtype.type(0)
    for k in range(bits.shape[0]):
        largest = max(largest, bits[k])
    return place_of(largest, bits)


@njit(fastmath=FLAGS, nogil=True)
def ordered(number, like):
    """Bits of a float, as an integer that orders among others as it does; applied twice, the bits.

    number : the bits as an integer; like : any array of its type.
    """
    integer = like.dtype.type
    sign = integer(8 * like.itemsize - 1)
    most = integer(~(integer(1) << sign))
    return integer(number ^ integer(integer(number >> sign) & most))
