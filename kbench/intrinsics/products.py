"""Matrix products without spurious floating-point warnings.

OpenBLAS's float32 kernels load whole vector registers, so they also compute with what lies behind
the last row. It does not enter the product, but it can raise the processor's "invalid" flag, which
NumPy reports as "invalid value encountered in matmul" although every value of the result is right
(https://github.com/numpy/numpy/issues/24067; once in 11,600 tests on an AVX-512 processor under
load). So products are computed where these flags are ignored. Whether numbers are finite is checked
elsewhere: rows by the estimators, kernel values by `kbench.kernels.value_range`, models by
`kbench.methods.base.ends`.
"""

from typing import Any

import numpy as np


def matmul(A: Any, B: Any, out: np.ndarray | None = None) -> Any:
    """Return A @ B of dense or sparse operands, in `out` if given (dense ones only)."""
    with np.errstate(all="ignore"):
        return A @ B if out is None else np.matmul(A, B, out=out)
