"""Tasks on several threads: each is done once, with one thread of its own, whatever happens."""

import os
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest

from kbench.kernels import threads
from kbench.kernels.threads import allowed_threads, in_any_order, in_parts

several = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS == 1, reason="numba may use one thread here"
)


def test_every_task_is_done_once():
    done = []
    in_any_order([lambda number=number: done.append(number) for number in range(50)])
    assert sorted(done) == list(range(50))
    in_any_order([])


@several
def test_a_task_has_one_thread_and_the_caller_keeps_its_own():
    before = allowed_threads()
    seen = []
    in_any_order([lambda: seen.append(allowed_threads()) for _ in range(8)])
    assert seen == [1] * 8
    assert allowed_threads() == before


def test_an_exception_is_raised_and_ends_what_has_not_begun():
    done = []

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_any_order([fail] + [lambda: done.append(time.sleep(0.001))] * 1000)
    assert len(done) < 1000


@pytest.mark.parametrize("n", [0, 7, 1000])
def test_parts_cover_every_place_once(n, monkeypatch):
    monkeypatch.setattr(threads, "allowed_threads", lambda: 3)
    parts = []
    in_parts(lambda start, stop: parts.append((start, stop)), n, 1e9, 16)
    assert sorted(place for start, stop in parts for place in range(start, stop)) == list(range(n))
    assert all(start % 16 == 0 for start, _ in parts)


def test_helpers_are_kept_and_raise_what_their_work_raised(monkeypatch):
    monkeypatch.setattr(threads, "allowed_threads", lambda: 3)
    seen = []

    def work(start, stop):
        seen.append(threading.get_ident())

    in_parts(work, 999, 1e9, 1)
    before = threading.active_count()
    for _ in range(20):
        in_parts(work, 999, 1e9, 1)
    assert threading.active_count() == before
    assert len(seen) == 63

    def fail_elsewhere(start, stop):
        if start:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_parts(fail_elsewhere, 999, 1e9, 1)
    in_parts(work, 999, 1e9, 1)
    assert len(seen) == 66


def test_several_threads_have_helpers_of_their_own(monkeypatch):
    monkeypatch.setattr(threads, "allowed_threads", lambda: 2)
    totals = np.zeros(4, int)

    def count(place):
        def work(start, stop):
            for _ in range(start, stop):
                parts[place].append(stop - start)

        for _ in range(100):
            in_parts(work, 10, 1e9, 1)
        totals[place] = len(parts[place])

    parts = [[] for _ in totals]
    callers = [threading.Thread(target=count, args=(place,)) for place in range(len(totals))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert np.array_equal(totals, np.full(4, 1000))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_helpers_of_its_own():
    code = """
import os, warnings
from kbench.kernels import threads
threads.allowed_threads = lambda: 2
done = []
threads.in_parts(lambda start, stop: done.append(stop - start), 10, 1e9, 1)
warnings.simplefilter("ignore")
child = os.fork()
threads.in_parts(lambda start, stop: done.append(stop - start), 10, 1e9, 1)
assert sum(done) == 20
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
