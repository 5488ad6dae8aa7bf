"""The warning of float32 kernel values that are wrong."""

import numpy as np

from kbench.errors import warn
from kbench.kernels import KernelMatrix

# Largest error of float32 values of at most 1 that is not warned of. Set by hand.
_MAX_ROUNDING = 0.01


def warn_of_rounding(kernels: list[KernelMatrix]) -> None:
    """Warn if rows are so far from each other, in widths of the kernel, that rounding to float32
    changes kernel values by more than `_MAX_ROUNDING`."""
    error = max((k.entry_error for k in kernels if k.dtype == np.float32), default=0.0)
    if error > _MAX_ROUNDING and kernels[0].kernel.unit_diagonal:
        warn(
            f"rows spread over so many widths of the kernel that float32 values may be off by "
            f'{min(error, 1.0):.2g}: set dtype="float64", leave out rows far from all others, or '
            "lower gamma"
        )
