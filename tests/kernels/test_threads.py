"""Tasks on several threads: each is done once, with one thread of its own, whatever happens."""

import time

import numba
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
