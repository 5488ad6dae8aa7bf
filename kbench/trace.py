"""What a method tells about its fit while it runs: named phases and intermediate models.

A method opens its phases (`with trace.phase("cluster"):`) and may show intermediate states
(`trace(alpha=alpha, objective=f)`). One that learns step by step shows `samples`, the rows seen,
and `predict`, a function from rows to what its machine would predict if the fit ended here; it may
be called inside the callback only. The clock stands still there, so that looking at a fit does not
make it slower in the row.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Trace:
    """Clock of one fit.

    Parameters
    ----------
    callback : callable, optional
        Called as `callback(seconds, state)` with the fit's wall seconds so far and the keyword
        arguments that the method passed. Its own time counts nowhere.

    Attributes
    ----------
    timings : dict of str to float
        Wall seconds by phase. A phase inside another takes its time from the outer one, so the
        values add up to the time spent in phases.
    paused_wall_s, paused_cpu_s : float
        Seconds spent in the callback and in pauses; a timer around the fit subtracts them.
    """

    def __init__(self, callback: Callable[[float, dict[str, Any]], None] | None = None) -> None:
        self.timings: dict[str, float] = {}
        self.paused_wall_s = 0.0
        self.paused_cpu_s = 0.0
        self._callback = callback
        self._open: list[str] = []
        self._start = self._mark = time.perf_counter()

    def restart(self) -> None:
        """Forget everything measured and start the clock at zero."""
        self.timings.clear()
        self.paused_wall_s = self.paused_cpu_s = 0.0
        self._start = self._mark = time.perf_counter()

    @property
    def active(self) -> bool:
        """Whether somebody listens; a method may skip costly states when nobody does."""
        return self._callback is not None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the wall time of the block under `name`."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def __call__(self, **state: Any) -> None:
        if self._callback is None:
            return
        seconds = time.perf_counter() - self._start - self.paused_wall_s
        with self.pause():
            self._callback(seconds, state)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock for the block: what a method measures of itself is no part of its fit."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        paused = time.perf_counter() - wall
        self.paused_wall_s += paused
        self.paused_cpu_s += time.process_time() - cpu
        self._mark += paused

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._open:
            name = self._open[-1]
            self.timings[name] = self.timings.get(name, 0.0) + now - self._mark
        self._mark = now


class Deadline:
    """`max_time` seconds from now on, during which the trace's callbacks do not count."""

    def __init__(self, max_time: float | None, trace: Trace) -> None:
        self._trace = trace
        self._end = None if max_time is None else self._now() + max_time

    def _now(self) -> float:
        return time.perf_counter() - self._trace.paused_wall_s

    def seconds_left(self) -> float | None:
        """What `max_time` of a solver should be; None is no limit."""
        return None if self._end is None else max(0.0, self._end - self._now())

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return self.seconds_left() == 0.0
