"""Matrix products without spurious floating-point warnings.

OpenBLAS's float32 kernels load whole vector registers, so they also compute with the memory after
the last row. That memory does not enter the product, but it can raise the processor's "invalid"
flag, which NumPy reports as "invalid value encountered in matmul" although every value of the
result is right (https://github.com/numpy/numpy/issues/24067; once in 11,600 tests on an AVX-512
processor under load). `matmul` therefore ignores these flags. Other modules check that numbers are
finite: estimators check rows, `kbench.kernels.value_range` kernel values, and
`kbench.methods.base.finished_fit` models.

BLAS and LAPACK round differently with another number of threads, but a model must not depend on
that number: `one_blas_thread` is for solvers whose results depend on the last bit. Rounding can
make a semidefinite matrix indefinite: `at_first_shift` raises its diagonal until it has a factor.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

_T = TypeVar("_T")


def matmul(A: Any, B: Any, out: np.ndarray | None = None) -> Any:
    """Return A @ B of dense or sparse operands; dense products are written to `out` if given."""
    with np.errstate(all="ignore"):
        return A @ B if out is None else np.matmul(A, B, out=out)


def at_first_shift(factorise: Callable[[float], _T], first: float, second: float) -> _T:
    """Return factorise(shift) for the first shift of the diagonal that gives a factor.

    factorise : raises a LinAlgError if there is no factor
    first, second : the first two shifts that are tried; each further shift is ten times the last,
        set by hand: a larger factor needs fewer attempts, but shifts more than is needed
    """
    shift, following = first, second
    while True:
        try:
            return factorise(shift)
        except np.linalg.LinAlgError:
            shift, following = following, 10.0 * following


class _OneBlasThread(contextlib.ContextDecorator):
    """Limits BLAS to one thread in this process while any thread is inside its `with` block.

    The limit holds for all threads of the process: the first user sets it, the last removes it.
    """

    def __init__(self) -> None:
        self._lock, self._n_users = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_users:
                self._limiter = _libraries().limit(limits=1, user_api="blas")
            self._n_users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_users = max(self._n_users - 1, 0)
            if not self._n_users:
                self._limiter.restore_original_limits()


one_blas_thread = _OneBlasThread()
# The other users do not exist in a forked process; one of them may have held the lock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.__init__)  # type: ignore[misc]


@functools.cache
def _libraries() -> ThreadpoolController:
    """The BLAS and OpenMP libraries in this process; looking for them takes milliseconds."""
    return ThreadpoolController()
