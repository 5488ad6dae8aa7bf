"""Clocks, sizes and peaks of a run are what they say."""

import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from harness import python
from sklearn.svm import SVC

from kbench.cost import UNIT_ROWS, linear_prediction_s, prediction_s
from kbench.run.execution import measure, processes, row_loop
from kbench.run.execution.fitted_columns import target_errors
from kbench.run.execution.row_loop import row_loop_s
from kbench.run.execution.worker import WARMUP_ROWS, _some_rows, _take
from kbench.trace import Trace


def spinning(seconds):
    code = f"import time\nwhile time.process_time() < {seconds}: pass"
    return subprocess.Popen([sys.executable, "-c", code])


def test_a_stopwatch_counts_wall_and_cpu_apart():
    """In a process of its own: threads of a BLAS, even idle ones, take CPU time at first."""
    script = """if True:
        import time
        from kbench.run.execution.measure import Stopwatch
        with Stopwatch() as watch:
            time.sleep(0.2)
            end = time.process_time() + 0.1
            while time.process_time() < end:
                pass
        print(watch.wall_s, watch.cpu_s)
    """
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = python("-c", script, check=True, env=alone)
    wall_s, cpu_s = map(float, done.stdout.split())
    assert wall_s >= 0.3
    assert 0.1 <= cpu_s < wall_s - 0.15  # sleeping is no CPU time


def test_a_stopwatch_counts_the_children_that_run_and_that_ran():
    with measure.Stopwatch() as watch:
        spinning(0.33).wait()  # its CPU seconds are counted in ticks of .01
    assert watch.cpu_s >= 0.3
    with measure.Stopwatch() as watch:
        running = spinning(60.0)
        while processes.cpu_seconds([running.pid]) < 0.3:
            time.sleep(0.01)
    running.kill()
    running.wait()
    assert watch.cpu_s >= 0.25


def test_other_processes_that_keep_processors_busy_are_counted():
    # The shell ends at once, so that the process is no child of this one, which would be own work.
    start = f"{sys.executable} -c 'while True: pass' > /dev/null 2>&1 & echo $!"
    other = int(subprocess.check_output(["sh", "-c", start], text=True))
    try:
        contention = measure.Contention()
        time.sleep(2 * measure.Contention.SHORTEST_S)
        contention.close()
    finally:
        os.kill(other, signal.SIGKILL)
    # It gets a processor of its own, or shares one with other tests, which count as well.
    assert contention.other_cpus > 0.3
    assert contention.preempted >= 0


def test_own_work_and_that_of_children_is_not_contention():
    """Without other processes, what the machine is busy with is what the run does."""
    own_s, busy_s = iter([1.0, 4.0]), iter([10.0, 13.0])
    contention = measure.Contention(lambda: next(own_s), lambda: next(busy_s))
    time.sleep(measure.Contention.SHORTEST_S)
    contention.close()
    assert contention.other_cpus == pytest.approx(0.0, abs=1e-9)


def test_a_fit_too_short_for_the_clock_of_the_system_has_no_count_of_others():
    contention = measure.Contention()
    contention.close()
    assert contention.other_cpus is None


def test_fast_calls_are_repeated_and_slow_ones_are_not():
    calls = []
    result, wall_s, cpu_s = measure.timed_call(lambda: calls.append(1) or "result")
    assert (result, len(calls)) == ("result", measure.REPEATS)
    assert wall_s >= 0
    assert cpu_s >= 0
    calls.clear()
    _, wall_s, _ = measure.timed_call(lambda: calls.append(time.sleep(0.06)))
    assert len(calls) == 1
    assert wall_s >= 0.06


@pytest.mark.parametrize("outputs", [1, 10])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_the_linear_units_are_positive_and_leave_the_data_alone(make, outputs):
    X = make(np.eye(50, 7, dtype=np.float32))
    assert 0 < linear_prediction_s(X, outputs) < 1e-3
    assert 0 < row_loop_s(X, outputs) < 1e-3
    assert X.sum() == 7


def test_the_loop_of_the_second_unit_is_a_linear_model():
    rng = np.random.default_rng(0)
    X = sp.random_array((40, 9), density=0.4, format="csr", rng=rng)
    weights, values = rng.normal(size=(9, 3)), np.full((40, 3), np.nan)
    starts, indices = X.indptr.astype(np.int32), X.indices.astype(np.int32)
    row_loop._predict_row_by_row(starts, indices, X.data, weights, values)
    np.testing.assert_allclose(values, X @ weights, atol=1e-14)


def test_pickled_bytes_are_those_of_a_pickle():
    model = SVC().fit(np.random.default_rng(0).normal(size=(300, 40)), np.arange(300) % 2)
    exact = len(pickle.dumps(model, protocol=5))
    assert abs(measure.pickled_bytes(model) - exact) < 0.05 * exact
    assert measure.pickled_bytes(lambda: None) is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the kernel's high mark")
def test_peak_memory_is_that_of_the_block():
    before = [np.ones(1 << 14) for _ in range(1 << 9)]  # 64 MiB in the allocator's hands
    del before
    with processes.PeakMemory() as peak:
        held = np.ones(1 << 22)  # 32 MiB
        del held
    assert 30 << 20 < peak.bytes < 40 << 20
    with processes.PeakMemory() as peak:
        pass
    assert peak.bytes < 4 << 20


@pytest.fixture
def clock(monkeypatch):
    """A clock that only goes when it is told to."""

    class Clock:
        now = 0.0

        def sleep(self, seconds):
            self.now += seconds

    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    return clock


def test_phases_add_up_and_an_inner_one_takes_from_the_outer(clock):
    trace = Trace()
    clock.sleep(1)
    with trace.phase("outer"):
        clock.sleep(2)
        with trace.phase("inner"):
            clock.sleep(4)
        clock.sleep(8)
    with trace.phase("inner"):
        clock.sleep(16)
    assert trace.timings == {"outer": 10, "inner": 20}


def test_phases_are_timed_in_cpu_seconds_too():
    trace = Trace()
    with trace.phase("sleep"):
        time.sleep(0.1)
    with trace.phase("work"):
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
    assert trace.timings["sleep"] >= 0.1
    assert trace.cpu_timings["sleep"] < 0.05
    assert 0.05 <= trace.cpu_timings["work"] < 0.1
    trace.restart()
    assert trace.cpu_timings == {}


def test_the_clock_stands_still_while_somebody_looks(clock):
    seen = []

    def look(seconds, state):
        seen.append((seconds, state["objective"]))
        clock.sleep(100)

    trace = Trace(look)
    with trace.phase("solve"):
        clock.sleep(1)
        trace(objective=3.0)
        clock.sleep(2)
        trace(objective=2.0)
    assert seen == [(1, 3.0), (3, 2.0)]
    assert trace.timings == {"solve": 3}
    assert trace.paused_wall_s == 200
    trace.restart()
    assert (trace.timings, trace.paused_wall_s) == ({}, 0)


def test_machines_that_fit_targets_have_errors_of_targets_too():
    class Constant:
        fits_targets = True

        def decision_function(self, X):
            return np.full(len(X), 0.5)

    class Data:
        X_test, y_test = np.zeros((4, 1)), np.array([1, -1, 1, -1])

    found = target_errors("binary", Constant(), Data)
    assert found["rmse"] == pytest.approx(np.sqrt((0.5**2 + 1.5**2) / 2))
    assert target_errors("multiclass", Constant(), Data) == {}
    assert target_errors("binary", object(), Data) == {}


@pytest.mark.parametrize("n", [1, 5, 100, 100_000])
def test_the_rows_of_the_warm_up_hold_every_class(n):
    rng = np.random.default_rng(n)
    y = rng.integers(0, 7, n)
    y[n // 2] = 99  # one row of a rare class
    rows = _some_rows(y, WARMUP_ROWS, classes=True)
    assert set(y[rows]) == set(y)
    assert len(rows) <= WARMUP_ROWS + 8
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_the_warm_up_meets_read_only_arrays_as_the_fit_does(make):
    X = make(np.eye(20, 3, dtype=np.float32))
    part = _take(X, np.array([0, 2, 5]))
    arrays = (part,) if isinstance(part, np.ndarray) else (part.data, part.indices, part.indptr)
    assert not any(array.flags.writeable for array in arrays)
    assert part.dtype == np.float32


def test_a_call_with_a_high_fixed_cost_is_made_with_more_rows():
    def predict(rows):
        end = time.process_time() + 0.005 + 1e-6 * len(rows)
        while time.process_time() < end:
            pass

    cost = prediction_s(predict, np.zeros((500, 2)), 0.0055)
    assert 1e-6 < cost < 3e-6  # 0.0055 / 500 is 11e-6


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("n", "seconds", "most"),
    [(1000, 1e-4, UNIT_ROWS), (1000, 1e-3, 5000), (1000, 0.02, 1000), (UNIT_ROWS, 1e-3, UNIT_ROWS)],
)
def test_a_row_is_predicted_among_so_many_that_the_call_does_not_show(
    n, seconds, most, sparse, monkeypatch
):
    monkeypatch.setattr("kbench.cost.fixed_s", lambda *_: 1e-4)
    X = np.arange(2.0 * n).reshape(n, 2)
    seen = []
    cost = prediction_s(lambda rows: seen.append(rows), sp.csr_array(X) if sparse else X, seconds)
    assert cost > 0
    if most == n:
        assert not seen
        assert cost == seconds / n
    else:
        assert {rows.shape for rows in seen} == {(most, 2)}
        rows = seen[-1].toarray() if sparse else seen[-1]
        np.testing.assert_array_equal(rows, X[np.arange(most) % n])
