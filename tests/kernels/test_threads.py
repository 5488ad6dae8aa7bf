"""Divided loops and tasks on several threads: every iteration and task is done exactly once."""

import os
import signal
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest
from numba import njit

from kbench.kernels import threads
from kbench.kernels.threads import allowed_threads, run, run_tasks
from kbench.kernels.work_sharing import AWAKE, Loop, divided, share

several = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS == 1, reason="numba may use one thread here"
)


@pytest.fixture
def two_threads():
    """This thread may use two; those that it starts, as many as there are processors."""
    before = numba.get_num_threads()
    numba.set_num_threads(2)
    yield
    numba.set_num_threads(before)


def test_every_task_is_done_once():
    done = []
    run_tasks([lambda number=number: done.append(number) for number in range(50)])
    assert sorted(done) == list(range(50))
    run_tasks([])


@several
def test_a_task_has_one_thread_and_the_caller_keeps_its_threads():
    before = allowed_threads()
    seen = []
    run_tasks([lambda: seen.append(allowed_threads()) for _ in range(8)])
    assert seen == [1] * 8
    assert allowed_threads() == before


def test_an_exception_is_raised_and_prevents_tasks_that_have_not_started():
    done = []

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks([fail] + [lambda: done.append(time.sleep(0.001))] * 1000)
    assert len(done) < 1000


@several
def test_an_interrupted_caller_waits_for_the_tasks_in_progress(two_threads):
    begun, done = threading.Event(), []

    def interrupt_the_caller():
        begun.set()
        time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.02)
        done.append(len(threads._idle))

    # Shells start background jobs with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_tasks([begun.wait, interrupt_the_caller])
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(threads._idle) == done[0] + 1


def test_an_index_error_of_a_task_is_raised_too():
    def fail():
        [].pop()

    for place in range(3):
        tasks = [lambda: None] * 3
        tasks[place] = fail
        with pytest.raises(IndexError):
            run_tasks(tasks)


@njit(nogil=True)
def _mark(seen, bounds, start, stop):
    bounds[start] += 1
    for place in range(start, stop):
        seen[place] += 1


_expose_mark = divided(_mark)


@njit(nogil=True)
def _shared_mark(arguments, n, block, mailboxes):
    share(_expose_mark(arguments), n, block, mailboxes)


_MARK = Loop(_mark, _shared_mark)


def mark(n, multiple=1, nanoseconds=1e6):
    """Return how often each iteration ran, and where blocks began."""
    seen, bounds = np.zeros(n, int), np.zeros(n + 1, int)
    run(_MARK, seen, bounds, n=n, nanoseconds=nanoseconds, multiple=multiple)
    return seen, np.flatnonzero(bounds)


@several
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("n", [0, 7, 1000, 1024])
@pytest.mark.parametrize("nanoseconds", [1.0, 1e5, 1e7])
def test_blocks_cover_every_iteration_once(n, nanoseconds):
    for _ in range(50):
        seen, bounds = mark(n, 16, nanoseconds)
        assert np.all(seen == 1)
        assert np.all(bounds % 16 == 0)
    if n >= 1000:
        assert (len(bounds) > 1) == (nanoseconds > 1e4)


@several
@pytest.mark.usefixtures("two_threads")
def test_helpers_are_reused_and_fall_asleep():
    mark(999)
    before = threading.active_count()
    for pause in [0.0] * 20 + [0.05] * 5:
        time.sleep(pause)
        seen, _ = mark(999)
        assert np.all(seen == 1)
    assert threading.active_count() == before
    # No helper polls for long.
    deadline = time.perf_counter() + 10.0
    while any(helper._mailbox[AWAKE] for helper in threads._idle):
        assert time.perf_counter() < deadline
        time.sleep(0.01)


@several
@pytest.mark.usefixtures("two_threads")
def test_a_helper_does_some_of_the_blocks():
    """Its mailbox is posted, taken and freed again: a caller alone would do the blocks in order."""

    def orders():
        order, turn = np.zeros(4000, int), np.zeros(1, int)
        run(_NUMBER, order, turn, n=4000, nanoseconds=1e8, multiple=1)
        return order

    assert any(np.any(np.diff(orders()) < 0) for _ in range(200))


@njit(nogil=True)
def _number(order, turn, start, stop):
    for place in range(start, stop):
        # Longer than a helper needs to start.
        total = 0.0
        for k in range(2000):
            total += 1.0 / (k + place + 1.0)
        turn[0] += 1 if total > 0.0 else 2
        order[place] = turn[0]


_expose_number = divided(_number)


@njit(nogil=True)
def _shared_number(arguments, n, block, mailboxes):
    share(_expose_number(arguments), n, block, mailboxes)


_NUMBER = Loop(_number, _shared_number)


@several
def test_threads_without_a_task_help_with_the_loops_of_others():
    helped = []

    def long():
        deadline = time.perf_counter() + 10.0
        while not threads._state.spare_helpers and time.perf_counter() < deadline:
            time.sleep(0.001)
        helped.append(len(threads._state.spare_helpers))
        for _ in range(20):
            seen, bounds = mark(1000)
            assert np.all(seen == 1)
            assert len(bounds) > 1
        assert len(threads._state.spare_helpers) == helped[0]

    run_tasks([long, lambda: None])
    assert helped[0] >= 1
    assert threads._state.spare_helpers is None
    assert len(set(threads._idle)) == len(threads._idle)


@several
def test_several_calling_threads_use_different_helpers():
    good = []

    def count():
        numba.set_num_threads(2)
        good.append(all(np.all(mark(100)[0] == 1) for _ in range(200)))

    callers = [threading.Thread(target=count) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert good == [True] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_starts_new_helpers():
    code = """
import os, warnings
import numpy as np
from kbench.kernels import threads
from kbench.kernels.columns import take_columns
array = np.arange(400_000.0).reshape(4, -1)
columns = np.arange(100_000)[::-1]
assert np.array_equal(take_columns(array, columns), array[:, columns])
assert len(threads._idle) == 2
warnings.simplefilter("ignore")
child = os.fork()
assert len(threads._idle) == (2 if child else 0)
assert np.array_equal(take_columns(array, columns), array[:, columns])
assert len(threads._idle) == 2
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0)
"""
    three = os.environ | {"NUMBA_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=three)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_forked_while_a_thread_computes_has_no_lock_to_wait_for():
    code = """
import os, threading, time, warnings
from kbench.intrinsics.products import one_blas_thread
from kbench.kernels.threads import cached_property
class Lazy:
    @cached_property
    def value(self):
        with one_blas_thread:
            time.sleep(0.2)
        return 1
one_blas_thread._lock.acquire()
threading.Thread(target=lambda: Lazy().value, daemon=True).start()
time.sleep(0.05)
warnings.simplefilter("ignore")
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    lazy = Lazy()
    os._exit(lazy.value + one_blas_thread._n_users - vars(lazy)["value"])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
