"""Divided loops (`work_sharing`) and independent tasks on several threads.

The threads are Python's: unlike numba's pool, they may be used by several callers at once.
A helper thread that has finished its work polls for more work for a while before it sleeps.
"""

import contextlib
import ctypes
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.core import config

from kbench.kernels.work_sharing import AWAKE, CALLED, STATE, Loop, new_mailbox, serve

_T = TypeVar("_T")

# Least nanoseconds of work for each thread of a loop: posting the loop and waiting for a helper
# cost 2,000 to 3,000 ns (`scripts/ablate_svm.py --threads 2` shows what sharing gains).
_NANOSECONDS_PER_THREAD = 10_000
# Nanoseconds of work in a block. Smaller blocks cost more atomic increments (100 ns each), larger
# blocks leave threads waiting for the last one. Set by hand.
_NANOSECONDS_PER_BLOCK = 5_000


class cached_property(functools.cached_property[_T]):
    """An attribute that is computed when it is first read, without a lock, as in Python 3.12.

    In Python 3.11 all instances of a class have one lock: fits in several threads wait for each
    other, and a process that is forked while a thread holds the lock waits for ever.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> _T:  # type: ignore[override]
        if instance is None:
            return self  # type: ignore[return-value]
        value = vars(instance)[self.attrname] = self.func(instance)
        return value


class _Helper:
    """A thread that executes loops and tasks of other threads; numba may use one thread in it."""

    def __init__(self) -> None:
        # The caller compiles, so that the helper can serve at once.
        serve.compile((types.int64,))
        self._mailbox = new_mailbox()
        self.address = self._mailbox.ctypes.data
        # Locks serve as signals: one thread waits to acquire what another releases.
        self._begin_lock, self._end_lock = threading.Lock(), threading.Lock()
        self._begin_lock.acquire()
        self._end_lock.acquire()
        self._work: Callable[[], None] | None = None
        threading.Thread(
            target=self._serve, args=(_current_core(),), name="kbench helper", daemon=True
        ).start()

    def wake(self) -> None:
        """Let the helper poll for loops that compiled code posts."""
        if not self._mailbox[AWAKE]:
            self._mailbox[AWAKE] = 1
            if self._begin_lock.locked():
                self._begin_lock.release()

    def start(self, work: Callable[[], None]) -> None:
        """Let the helper call `work` once; every call needs a `wait`."""
        self._work = work
        self._mailbox[STATE] = CALLED
        self.wake()

    def wait(self) -> None:
        """Wait until the work is done."""
        self._end_lock.acquire()

    def _serve(self, parents_core: int) -> None:
        # The setting holds for the calling thread alone.
        numba.set_num_threads(1)
        _leave_core(parents_core)
        while True:
            # Sleep until `wake`; then poll until AWAKE is cleared, after a long time without work.
            self._begin_lock.acquire()
            while self._mailbox[AWAKE]:
                serve(self.address)
                if self._work is not None:
                    self._do(self._work)

    def _do(self, work: Callable[[], None]) -> None:
        work()
        # Drop the closure, whose arrays may be large.
        self._work = None
        self._end_lock.release()


def _idle_helper() -> _Helper:
    """Return an idle helper."""
    try:
        return _idle.pop()
    except IndexError:
        return _Helper()


def _current_core() -> int:
    """Return the core that this thread runs on; -1 if the system cannot tell it."""
    try:
        return int(ctypes.CDLL(None).sched_getcpu())
    except (AttributeError, OSError, TypeError):
        return -1


def _leave_core(core: int) -> None:
    """Move this thread to a core other than `core` if possible; it is not pinned there."""
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        if core in allowed and len(allowed) > 1:
            os.sched_setaffinity(0, allowed - {core})
            os.sched_setaffinity(0, allowed)


_idle: list[_Helper] = []
# The threads of the parent do not exist in a forked process.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def run(loop: Loop, *arguments: Any, n: int, nanoseconds: float, multiple: int) -> None:
    """Do n iterations of a loop on as many threads as numba may use, fewer if the loop is short.

    *arguments : Of the loop, without start and stop
    n : Number of iterations
    nanoseconds : Estimated time of all iterations on one thread
    multiple : Blocks begin at multiples of this number
    """
    if _state.spare_helpers is None and allowed_threads() == 1:
        loop.plain(*arguments, 0, n)
        return
    max_threads = min(int(nanoseconds) // _NANOSECONDS_PER_THREAD, n // multiple)
    helpers = _take_helpers(max_threads - 1) if max_threads > 1 else []
    block = n
    if helpers:
        block = max(1, int(n / multiple * _NANOSECONDS_PER_BLOCK / nanoseconds)) * multiple
    try:
        for helper in helpers:
            helper.wake()
        loop.shared(arguments, n, block, np.array([helper.address for helper in helpers], np.int64))
    finally:
        (_idle if _state.spare_helpers is None else _state.spare_helpers).extend(helpers)


class _ThreadState(threading.local):
    """State that every thread has for itself."""

    # In a thread of `run_tasks`: the helpers for which no task is left; in other threads None.
    spare_helpers: deque[_Helper] | None = None


_state = _ThreadState()


def _take_helpers(max_helpers: int) -> list[_Helper]:
    """Return idle helpers, as many as this thread may use and at most `max_helpers`."""
    if _state.spare_helpers is None:
        return [_idle_helper() for _ in range(min(allowed_threads() - 1, max_helpers))]
    helpers: list[_Helper] = []
    with contextlib.suppress(IndexError):
        while len(helpers) < max_helpers:
            helpers.append(_state.spare_helpers.pop())
    return helpers


def run_tasks(tasks: Iterable[Callable[[], None]]) -> None:
    """Call independent tasks, started in their order, on as many threads as numba may use.

    Each task has one thread; threads that find no more task help with the loops of the others.
    After an exception no further task starts, and the exception is raised when all started tasks
    have ended.
    """
    queue = deque(tasks)
    n_threads = allowed_threads()
    if min(n_threads, len(queue)) <= 1:
        for task in queue:
            task()
        return
    failures: list[BaseException] = []
    spare_helpers: deque[_Helper] = deque()

    def attempt(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            failures.append(error)

    def attempt_remaining() -> None:
        while not failures:
            try:
                task = queue.popleft()
            except IndexError:
                return
            attempt(task)

    def attempt_and_help(helper: _Helper) -> None:
        _state.spare_helpers = spare_helpers
        attempt_remaining()
        _state.spare_helpers = None
        spare_helpers.append(helper)

    # The first task may be the longest, so this thread starts it without waiting for helpers.
    first = queue.popleft()
    helpers = [_idle_helper() for _ in range(min(n_threads - 1, len(queue)))]
    for helper in helpers:
        helper.start(functools.partial(attempt_and_help, helper))
    _state.spare_helpers = spare_helpers
    numba.set_num_threads(1)
    try:
        attempt(first)
        attempt_remaining()
    finally:
        _state.spare_helpers = None
        numba.set_num_threads(n_threads)
        for helper in helpers:
            try:
                helper.wait()
            except BaseException as interrupt:
                # Wait again, so that no task is running after the caller has returned.
                failures.append(interrupt)
                helper.wait()
        _idle.extend(helpers)
    if failures:
        raise failures[0]


def allowed_threads() -> int:
    """Return how many threads numba may use in this thread."""
    # Asking numba starts its pool of threads.
    limit: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return 1 if limit == 1 else numba.get_num_threads()
