"""Where floats are largest, found in vector code.

The compiler does not vectorise a running maximum of floats. But their bits, read as integers, order
as they do (where the sign is set, once the other bits are flipped); a running maximum of integers
vectorises, and so does the first place at which it stands.
"""

import numpy as np
from numba import njit

FLAGS = {"contract", "nsz", "arcp", "nnan"}


def as_integers(x: np.ndarray) -> np.ndarray:
    """The bits of x : (q,) float32 or float64; a view."""
    return x.view(np.int32 if x.dtype == np.float32 else np.int64)


@njit(fastmath=FLAGS, nogil=True)
def place_of_largest(bits):
    """First place of the largest of (q,) floats >= 0, given their bits."""
    integer, q = bits.dtype.type, np.int32(bits.shape[0])
    largest = integer(0)
    for k in range(q):
        largest = max(largest, bits[k])
    place = q
    for k in range(q):
        place = min(place, np.int32(k) if bits[k] == largest else q)
    return place


@njit(fastmath=FLAGS, nogil=True)
def places_of_extremes(v, bits, grow, fall):
    """First places of max {v_k : grow_k > 0} and min {v_k : fall_k > 0}; q where there is none.

    v, grow, fall : (q,); bits are those of v.
    """
    integer, q, nothing = bits.dtype.type, np.int32(v.shape[0]), v.dtype.type(0)
    sign = integer(8 * bits.itemsize - 1)
    most = integer(~(integer(1) << sign))
    least = integer(-most - 1)
    highest, lowest = least, most
    for k in range(q):
        b = bits[k]
        key = integer(b ^ integer(integer(b >> sign) & most))
        highest = max(highest, key if grow[k] > nothing else least)
        lowest = min(lowest, key if fall[k] > nothing else most)
    up, down = q, q
    for k in range(q):
        b = bits[k]
        key = integer(b ^ integer(integer(b >> sign) & most))
        place = np.int32(k)
        up = min(up, place if key == highest and grow[k] > nothing else q)
        down = min(down, place if key == lowest and fall[k] > nothing else q)
    return up, down
