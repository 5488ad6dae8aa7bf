"""Loops over columns, and tasks of their own, on several threads."""

import threading
from collections import deque
from collections.abc import Callable, Iterable

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
    n_parts = max(1, min(allowed_threads(), most)) if most > 1 else 1
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


def in_any_order(tasks: Iterable[Callable[[], None]]) -> None:
    """Call tasks that share nothing, on as many threads as numba may use; the first begin first.

    While there are several, each has one thread. An exception ends what has not begun, and is
    raised when all that has begun is done.
    """
    waiting = deque(tasks)
    allowed = allowed_threads()
    if min(allowed, len(waiting)) <= 1:
        for task in waiting:
            task()
        return
    failures: list[BaseException] = []

    def work() -> None:
        # Holds for the thread that says so.
        numba.set_num_threads(1)
        while not failures:
            try:
                task = waiting.popleft()
            except IndexError:
                return
            try:
                task()
            except BaseException as error:
                failures.append(error)

    others = [threading.Thread(target=work) for _ in range(min(allowed, len(waiting)) - 1)]
    for thread in others:
        thread.start()
    try:
        work()
    finally:
        numba.set_num_threads(allowed)
        for thread in others:
            thread.join()
    if failures:
        raise failures[0]


def allowed_threads() -> int:
    """How many threads numba may use here."""
    # Asking numba starts its pool of threads.
    limit: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return 1 if limit == 1 else numba.get_num_threads()
