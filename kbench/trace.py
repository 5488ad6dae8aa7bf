"""Clock of a fit: named phases, intermediate models, time limits.

A method opens its phases (`with trace.phase("cluster"):`) and may report intermediate states
(`trace(alpha=alpha, objective=f)`). A method that learns step by step reports `samples`, the number
of rows visited, and `predict`, a function from rows to predictions of the current model, which only
the callback may call. The clock stops during the callback, so that observing a fit does not
increase the times in its row.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


class Trace:
    """Clock of one fit.

    Parameters
    ----------
    callback : Called as `callback(seconds, state)` with the wall seconds of the fit so far and the
        keyword arguments that the method passed. The time spent in the callback is not counted.

    Attributes
    ----------
    timings : dict of str to float
        Wall seconds by phase. The time of a nested phase is not counted in the outer phase, so the
        values add up to the total time spent in phases.
    cpu_timings : dict of str to float
        CPU seconds of this process by phase, summed over all threads.
    paused_wall_s, paused_cpu_s : float
        Seconds spent in the callback and in `pause`; a timer around the fit subtracts them.
    """

    def __init__(self, callback: Callable[[float, dict[str, Any]], None] | None = None) -> None:
        self.timings: dict[str, float] = {}
        self.cpu_timings: dict[str, float] = {}
        self.paused_wall_s = 0.0
        self.paused_cpu_s = 0.0
        self._callback = callback
        self._open: list[str] = []
        self._start = self._mark = self.wall_s()
        self._cpu_mark = self.cpu_s()

    def wall_s(self) -> float:
        """Wall seconds of the clock that times the fit."""
        return time.perf_counter()

    def running_s(self) -> float:
        """Wall seconds without the pauses so far."""
        return self.wall_s() - self.paused_wall_s

    def cpu_s(self) -> float:
        """CPU seconds of this process."""
        return time.process_time()

    def restart(self) -> None:
        """Discard all measurements and start the clock at zero."""
        self.timings.clear()
        self.cpu_timings.clear()
        self.paused_wall_s = self.paused_cpu_s = 0.0
        self._start = self._mark = self.wall_s()
        self._cpu_mark = self.cpu_s()

    @property
    def active(self) -> bool:
        """Whether there is a callback; if not, a method may skip costly states."""
        return self._callback is not None

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Add the wall and CPU seconds of the `with` block to `timings` and `cpu_timings`."""
        return _Phase(self, name)

    def __call__(self, **state: Any) -> None:
        if self._callback is None:
            return
        seconds = self.running_s() - self._start
        with self.pause():
            self._callback(seconds, state)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock during the block, for measurements that are not part of the fit."""
        wall, cpu = self.wall_s(), self.cpu_s()
        yield
        paused, paused_cpu = self.wall_s() - wall, self.cpu_s() - cpu
        self.paused_wall_s += paused
        self.paused_cpu_s += paused_cpu
        self._mark += paused
        self._cpu_mark += paused_cpu

    def _charge(self) -> None:
        """Add the seconds since the last call to the innermost open phase."""
        now, cpu_now = self.wall_s(), self.cpu_s()
        if self._open:
            name = self._open[-1]
            self.timings[name] = self.timings.get(name, 0.0) + now - self._mark
            self.cpu_timings[name] = self.cpu_timings.get(name, 0.0) + cpu_now - self._cpu_mark
        self._mark, self._cpu_mark = now, cpu_now


class _Phase(AbstractContextManager[None]):
    """The block of a phase; a generator's context would take twice the time (a fit has six)."""

    __slots__ = ("_name", "_trace")

    def __init__(self, trace: Trace, name: str) -> None:
        self._trace, self._name = trace, name

    def __enter__(self) -> None:
        self._trace._charge()
        self._trace._open.append(self._name)

    def __exit__(self, *error: object) -> None:
        self._trace._charge()
        self._trace._open.pop()


class Deadline:
    """The time limit of one fit: `max_time` wall seconds from now, callbacks and pauses excluded.

    Estimators and solvers use no other clock for `max_time`. An estimator makes a Deadline at the
    start of `fit` and passes `seconds_left()` to each solver, which makes a Deadline from that
    number.

    Parameters
    ----------
    max_time : Seconds, >= 0; None or infinity means no limit
    trace : Trace whose paused time does not count

    Examples
    --------
    >>> from kbench.trace import Deadline, Trace
    >>> Deadline(None, Trace()).passed, Deadline(0.0, Trace()).passed
    (False, True)
    """

    def __init__(self, max_time: float | None, trace: Trace) -> None:
        self._trace = trace
        self._end = math.inf if max_time is None else self._trace.running_s() + max_time

    def seconds_left(self) -> float | None:
        """The `max_time` of a solver that is called now: seconds, or None without a limit."""
        return None if self._end == math.inf else max(0.0, self._end - self._trace.running_s())

    def fraction(self, divisor: float) -> "Deadline":
        """A deadline after 1 / `divisor` of the time that is left."""
        seconds = self.seconds_left()
        return Deadline(None if seconds is None else seconds / divisor, self._trace)

    @property
    def passed(self) -> bool:
        """Whether the time limit has been reached."""
        return self._end != math.inf and self._trace.running_s() >= self._end
