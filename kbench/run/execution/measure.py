"""Measure a run: seconds of a block, including child processes; contention; sizes of models."""

import os
import pickle
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

from kbench.compiling import CompileClock
from kbench.run.execution import processes

# A call is repeated until it was made REPEATS times or took REPEAT_FOR_S wall seconds in all, and
# the median counts. More repetitions smooth the times of short calls, and cost time. Set by hand.
REPEATS = 5
REPEAT_FOR_S = 0.025


def _children_cpu_s() -> float:
    """CPU seconds so far of this process's descendants, including those that have ended."""
    times = os.times()
    pids = processes.descendants(os.getpid())
    waited = times.children_user + times.children_system
    return waited + (processes.cpu_seconds(pids) if pids else 0.0)


class Stopwatch:
    """Wall and CPU seconds of a `with` block, all threads and child processes included.

    compiled : A clock whose seconds in the block are subtracted. helpers_cpu_s : CPU seconds so far
    of processes that work for the block but are not descendants of this process.
    """

    wall_s = 0.0
    cpu_s = 0.0

    def __init__(
        self, compiled: CompileClock | None = None, helpers_cpu_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._compiled, self._helpers_cpu_s = compiled, helpers_cpu_s

    def __enter__(self) -> "Stopwatch":
        if self._compiled is not None:
            self._compiling = self._compiled.wall_s, self._compiled.cpu_s
        # The search for children may take longer than a prediction, so it precedes the clocks.
        self._children = _children_cpu_s() + self._helpers_cpu_s()
        self._cpu = time.process_time()
        self._wall = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.perf_counter() - self._wall
        self.cpu_s = time.process_time() - self._cpu
        self.cpu_s += _children_cpu_s() + self._helpers_cpu_s() - self._children
        if self._compiled is not None:
            self.wall_s -= self._compiled.wall_s - self._compiling[0]
            self.cpu_s -= self._compiled.cpu_s - self._compiling[1]


def timed_call(
    function: Callable[[], Any], compiled: CompileClock | None = None
) -> tuple[Any, float, float]:
    """Result, median wall seconds and median CPU seconds of a call, which may be repeated.

    compiled : As in `Stopwatch`.
    """
    walls, cpus = [], []
    while True:
        with Stopwatch(compiled) as watch:
            result = function()
        walls.append(watch.wall_s)
        cpus.append(watch.cpu_s)
        if sum(walls) >= REPEAT_FOR_S or len(walls) == REPEATS:
            return result, statistics.median(walls), statistics.median(cpus)


def own_cpu_s() -> float:
    """CPU seconds so far of this process and its descendants."""
    return time.process_time() + _children_cpu_s()


class Contention:
    """How much other processes disturbed a fit, between construction and `close`.

    A wall time says something about a method only if the method had the processors that it asked
    for. CPU seconds are nearly independent of other processes.

    own_cpu_s : CPU seconds so far of this process, its descendants and helpers.
    busy_cpu_s : CPU seconds so far of all processes of the machine.
    """

    # Wall seconds below which `other_cpus` is None, as the system counts in 0.01 s. Set by hand.
    SHORTEST_S = 0.2

    # How often the scheduler took a processor from this process or its ended children.
    preempted = 0
    # Mean number of processors that other processes, or a virtual machine's host, kept busy.
    other_cpus: float | None = None

    def __init__(
        self,
        own_cpu_s: Callable[[], float] = own_cpu_s,
        busy_cpu_s: Callable[[], float] = processes.busy_seconds,
    ) -> None:
        self._own_cpu_s, self._busy_cpu_s = own_cpu_s, busy_cpu_s
        self._switches = _involuntary_switches()
        self._own, self._busy = own_cpu_s(), busy_cpu_s()
        self._wall = time.perf_counter()

    def close(self) -> None:
        wall = time.perf_counter() - self._wall
        own_s, busy_s = self._own_cpu_s(), self._busy_cpu_s()
        self.preempted = _involuntary_switches() - self._switches
        if wall >= self.SHORTEST_S:
            self.other_cpus = max(0.0, (busy_s - self._busy) - (own_s - self._own)) / wall


def _involuntary_switches() -> int:
    return sum(
        resource.getrusage(scope).ru_nivcsw
        for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


class _Count:
    """A file that counts the bytes written to it, and stores none."""

    bytes = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.bytes += size
        return size


def pickled_bytes(model: Any) -> int | None:
    """Size of the pickled model, which is not stored; None if the model cannot be pickled."""
    counter = _Count()
    buffers = []

    def count_buffer(buffer: pickle.PickleBuffer) -> bool:
        buffers.append(buffer.raw().nbytes)
        return False

    try:
        pickle.Pickler(counter, protocol=5, buffer_callback=count_buffer).dump(model)
    except Exception:
        return None
    return counter.bytes + sum(buffers)
