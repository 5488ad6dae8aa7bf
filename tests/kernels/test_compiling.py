"""Compiling is lazy and announced: importing an estimator compiles nothing."""

import gc
import os
import subprocess
import sys
import time

import pytest

from kbench.compiling import MESSAGE, Announcement, CollectorPause, CompileClock


def announced(caplog):
    return [record.message for record in caplog.records].count(MESSAGE)


def test_long_compiling_is_announced_once_while_it_goes_on(caplog):
    clock = Announcement(patience_s=0.05).clock
    clock.begin()
    clock.begin()
    deadline = time.perf_counter() + 10.0
    while not announced(caplog) and time.perf_counter() < deadline:
        time.sleep(0.01)
    clock.end()
    clock.end()
    clock.begin()
    time.sleep(0.1)
    clock.end()
    assert announced(caplog) == 1


def test_short_compilations_are_announced_when_they_add_up(caplog):
    clock = Announcement(patience_s=0.2).clock
    clock.begin()
    clock.end()
    assert announced(caplog) == 0
    for _ in range(30):
        clock.begin()
        time.sleep(0.02)
        clock.end()
    assert announced(caplog) == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_rests_while_numba_compiles_and_is_then_as_before(enabled):
    states = []
    clock = CompileClock(CollectorPause().set)
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        for _ in range(2):
            clock.begin()
            clock.begin()
            clock.end()
            states.append(gc.isenabled())
            clock.end()
            states.append(gc.isenabled())
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert states == [False, enabled] * 2


IMPORT = """
from numba.core import event

class Count(event.Listener):
    names = []
    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass

event.register("numba:compile", Count())
from kbench.methods import KernelSVC
print(*Count.names)
"""
FIT = """
import numpy as np
X = np.random.default_rng(0).normal(size=(300, 4))
KernelSVC(gamma=0.5).fit(X, X[:, 0] > 0)
print(*Count.names)
"""


def compiled(code, cache):
    """The names of the functions that have been compiled at each `print` of the code."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [line.split() for line in done.stdout.splitlines()]


def test_importing_an_estimator_compiles_nothing(tmp_path):
    assert compiled(IMPORT, tmp_path) == [[]]


def test_a_fit_on_one_thread_compiles_no_sharing_and_no_other_solver(tmp_path):
    names = compiled(IMPORT + FIT, tmp_path)[-1]
    assert all(names.count(name) == 1 for name in ("descend", "_fill", "_half_row", "account"))
    assert not [name for name in names if "shared" in name or name in ("share", "serve")]
    assert "descend_together" not in names
