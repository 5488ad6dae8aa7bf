"""Loops over columns on several threads."""

import threading
from collections.abc import Callable

import numba
from numba.core import config

# A second thread costs about 50 microseconds.
_NANOSECONDS_PER_THREAD = 150_000


def in_parts(work: Callable[[int, int], None], n: int, nanoseconds: float, multiple: int) -> None:
    """Call work(start, stop) for parts of 0 .. n-1, on as many threads as numba may use.

    Parameters
    ----------
    work : callable
        Compiled code that releases the interpreter's lock and does not raise.
    nanoseconds : float
        About what the whole takes on one thread; what takes little is left to one.
    multiple : int
        Of which all bounds between parts are one.

    Notes
    -----
    The threads are Python's: unlike numba's own, they may be started by several threads at once.
    """
    most = min(int(nanoseconds) // _NANOSECONDS_PER_THREAD, n // multiple)
    n_parts = max(1, min(_n_threads(), most)) if most > 1 else 1
    bounds = [n * part // n_parts // multiple * multiple for part in range(n_parts)] + [n]
    others = [
        threading.Thread(target=work, args=(bounds[part], bounds[part + 1]))
        for part in range(1, n_parts)
    ]
    for thread in others:
        thread.start()
    work(0, bounds[1])
    for thread in others:
        thread.join()


def _n_threads() -> int:
    # Asking numba starts its pool of threads.
    limit: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return 1 if limit == 1 else numba.get_num_threads()
