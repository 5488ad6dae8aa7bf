"""The range that kernel values must have, so that no solver computes with infinities or NaNs.

Compiled searches for the largest of many floats assume that no float is a NaN, and the difference
of two infinite kernel values is a NaN. So values beyond the range are refused where they are
computed, with a message that names the kernel and a remedy.
"""

from typing import Any

import numpy as np

# Guard: kernel values may be as large as this fraction of the largest float. Sums of a few values,
# such as K_ii + K_jj - 2 K_ij, are then finite.
_MAX_FRACTION = 2.0**-6


class KernelRangeError(ValueError):
    """Kernel values that are not finite, or too large for the precision."""


def limit(dtype: Any) -> float:
    """Return the largest absolute kernel value in float32 or float64 that is accepted."""
    return _MAX_FRACTION * float(np.finfo(dtype).max)


def check_values(kernel: object, values: np.ndarray, dtype: Any) -> None:
    """Raise KernelRangeError unless all values : (a, b) of a kernel are in the range of `dtype`."""
    # With a NaN among the values, the largest is NaN and the comparison is false.
    if values.size and not max(float(values.max()), -float(values.min())) <= limit(dtype):
        refuse(kernel, float(np.abs(values).max()), dtype)


def refuse(kernel: object, largest: float, dtype: Any) -> None:
    """Raise KernelRangeError: the kernel's largest absolute value is `largest`."""
    dtype = np.dtype(dtype)
    dtype_remedy = ", or set dtype='float64'" if dtype == np.float32 else ""
    size = "are NaN" if np.isnan(largest) else f"are as large as {largest:.2g}"
    raise KernelRangeError(
        f"values of the kernel {kernel} {size}, which {dtype.name} cannot hold (the limit is "
        f"{limit(dtype):.2g}): scale the rows, or choose a kernel with smaller values{dtype_remedy}"
    )
