"""Loops over columns, and tasks of their own, on several threads.

The threads are Python's: unlike numba's own, several may be given work by several others at once.
They stay when they are done: one that has just been started shares its parent's core for
milliseconds where other programs run, one that wakes up is back on its own in microseconds.
"""

import ctypes
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable

import numba
from numba.core import config

# To hand work over, and to wait for it, costs about 15 microseconds.
_NANOSECONDS_PER_THREAD = 40_000


class _Helper:
    """A thread that does what it is given, itself allowed one thread."""

    def __init__(self) -> None:
        self._begin, self._end = threading.Lock(), threading.Lock()
        self._begin.acquire()
        self._end.acquire()
        self._work: Callable[[], None] | None = None
        self._failure: BaseException | None = None
        threading.Thread(target=self._serve, args=(_core(),), daemon=True).start()

    def start(self, work: Callable[[], None]) -> None:
        self._work = work
        self._begin.release()

    def wait(self) -> None:
        """Until the work is done; raises what it raised."""
        self._end.acquire()
        failure, self._failure = self._failure, None
        _idle.append(self)
        if failure is not None:
            raise failure

    def _serve(self, parents_core: int) -> None:
        # Holds for the thread that says so.
        numba.set_num_threads(1)
        _leave(parents_core)
        while True:
            self._begin.acquire()
            assert self._work is not None
            try:
                self._work()
            except BaseException as error:
                self._failure = error
            # What it was about may be large.
            self._work = None
            self._end.release()


def _helped(work: Callable[[], None]) -> _Helper:
    """A helper that has begun to work."""
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    helper.start(work)
    return helper


def _core() -> int:
    """The core that this thread is on; -1 where that cannot be asked."""
    try:
        return int(ctypes.CDLL(None).sched_getcpu())
    except (AttributeError, OSError, TypeError):
        return -1


def _leave(core: int) -> None:
    """Move this thread to another core than this one, if it may; it may also return."""
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        if core in allowed and len(allowed) > 1:
            os.sched_setaffinity(0, allowed - {core})
            os.sched_setaffinity(0, allowed)


_idle: list[_Helper] = []
# A forked process has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


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
    """
    most = min(int(nanoseconds) // _NANOSECONDS_PER_THREAD, n // multiple)
    n_parts = max(1, min(allowed_threads(), most)) if most > 1 else 1
    bounds = [n * part // n_parts // multiple * multiple for part in range(n_parts)] + [n]
    others = [
        _helped(functools.partial(work, bounds[part], bounds[part + 1]))
        for part in range(1, n_parts)
    ]
    work(0, bounds[1])
    for helper in others:
        helper.wait()


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
        while not failures:
            try:
                task = waiting.popleft()
            except IndexError:
                return
            try:
                task()
            except BaseException as error:
                failures.append(error)

    others = [_helped(work) for _ in range(min(allowed, len(waiting)) - 1)]
    numba.set_num_threads(1)
    try:
        work()
    finally:
        numba.set_num_threads(allowed)
        for helper in others:
            helper.wait()
    if failures:
        raise failures[0]


def allowed_threads() -> int:
    """How many threads numba may use here."""
    # Asking numba starts its pool of threads.
    limit: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return 1 if limit == 1 else numba.get_num_threads()
