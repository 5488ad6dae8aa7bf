"""Loops over columns, and tasks of their own, on several threads.

The threads are Python's: unlike numba's own, several may be given work by several others at once.
They stay when they are done, and look for more for a while before they sleep (`handing_over`).
"""

import contextlib
import ctypes
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numba
import numpy as np
from numba.core import config

from kbench.kernels.handing_over import AWAKE, CALLED, STATE, new_box, serve

# To hand parts of a loop over, and to wait for them, costs two or three microseconds.
_NANOSECONDS_PER_THREAD = 10_000
# Of a part, about: to take one costs a tenth of a microsecond, and who waits at the end waits for
# one at most.
_NANOSECONDS_PER_PART = 5_000


class _Helper:
    """A thread that does what it is given, itself allowed one thread."""

    def __init__(self) -> None:
        self._box = new_box()
        self.address = self._box.ctypes.data
        self._begin, self._end = threading.Lock(), threading.Lock()
        self._begin.acquire()
        self._end.acquire()
        self._work: Callable[[], None] | None = None
        threading.Thread(target=self._serve, args=(_core(),), daemon=True).start()

    def wake(self) -> None:
        """Let it look for what compiled code hands over."""
        if not self._box[AWAKE]:
            self._box[AWAKE] = 1
            if self._begin.locked():
                self._begin.release()

    def start(self, work: Callable[[], None]) -> None:
        self._work = work
        self._box[STATE] = CALLED
        self.wake()

    def wait(self) -> None:
        """Until the work is done."""
        self._end.acquire()

    def _serve(self, parents_core: int) -> None:
        # Holds for the thread that says so.
        numba.set_num_threads(1)
        _leave(parents_core)
        while True:
            # Asleep until there may be something, awake until it is tired or called.
            self._begin.acquire()
            while self._box[AWAKE]:
                serve(self.address)
                if self._work is not None:
                    self._do(self._work)

    def _do(self, work: Callable[[], None]) -> None:
        work()
        # What it was about may be large.
        self._work = None
        self._end.release()


def _helper() -> _Helper:
    """A helper with nothing to do."""
    try:
        return _idle.pop()
    except IndexError:
        return _Helper()


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


def in_parts(
    loop: Callable[..., None], *arguments: Any, n: int, nanoseconds: float, multiple: int
) -> None:
    """Call loop(*arguments, n, part, boxes), and let as many threads as numba may use help.

    Parameters
    ----------
    loop : compiled function that releases the interpreter's lock
        It hands its last three arguments to what `handing_over.shared` has made.
    n : int
        Number of places that the loop goes over.
    nanoseconds : float
        About what the whole takes on one thread; what takes little is left to one.
    multiple : int
        Of which all bounds between parts are one.
    """
    most = min(int(nanoseconds) // _NANOSECONDS_PER_THREAD, n // multiple)
    helpers = _take_helpers(most - 1) if most > 1 else []
    if not helpers:
        loop(*arguments, n, n, _NO_BOXES)
        return
    for helper in helpers:
        helper.wake()
    boxes = np.array([helper.address for helper in helpers])
    part = max(1, int(n / multiple * _NANOSECONDS_PER_PART / nanoseconds)) * multiple
    loop(*arguments, n, part, boxes)
    (_idle if _own.spare is None else _own.spare).extend(helpers)


_NO_BOXES = np.empty(0, np.int64)


class _Own(threading.local):
    """What each thread has of its own."""

    # While it does one of several tasks: the helpers that have found none left to do.
    spare: deque[_Helper] | None = None


_own = _Own()


def _take_helpers(most: int) -> list[_Helper]:
    """Helpers with nothing to do, as many as this thread may have."""
    if _own.spare is None:
        return [_helper() for _ in range(min(allowed_threads() - 1, most))]
    helpers: list[_Helper] = []
    with contextlib.suppress(IndexError):
        while len(helpers) < most:
            helpers.append(_own.spare.pop())
    return helpers


def in_any_order(tasks: Iterable[Callable[[], None]]) -> None:
    """Call tasks that share nothing, on as many threads as numba may use; the first begin first.

    While there are several, each has one thread; threads that find none left help with the loops of
    those that are still at work. An exception ends what has not begun, and is raised when all that
    has begun is done.
    """
    waiting = deque(tasks)
    allowed = allowed_threads()
    if min(allowed, len(waiting)) <= 1:
        for task in waiting:
            task()
        return
    failures: list[BaseException] = []
    spare: deque[_Helper] = deque()

    def attempt(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            failures.append(error)

    def attempt_others() -> None:
        while not failures:
            try:
                task = waiting.popleft()
            except IndexError:
                return
            attempt(task)

    def attempt_and_help(helper: _Helper) -> None:
        _own.spare = spare
        attempt_others()
        _own.spare = None
        spare.append(helper)

    # Who has the first, which may be the longest, is not to come late to it.
    first = waiting.popleft()
    others = [_helper() for _ in range(min(allowed - 1, len(waiting)))]
    for helper in others:
        helper.start(functools.partial(attempt_and_help, helper))
    _own.spare = spare
    numba.set_num_threads(1)
    try:
        attempt(first)
        attempt_others()
    finally:
        _own.spare = None
        numba.set_num_threads(allowed)
        for helper in others:
            helper.wait()
        _idle.extend(others)
    if failures:
        raise failures[0]


def allowed_threads() -> int:
    """How many threads numba may use here."""
    # Asking numba starts its pool of threads.
    limit: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return 1 if limit == 1 else numba.get_num_threads()
