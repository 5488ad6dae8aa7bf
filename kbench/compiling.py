"""numba's compilations in this process: a clock for their seconds, and a log line for a long wait.

Compiled functions are compiled when they are first used and kept in numba's cache on disk. numba
announces each compilation that the cache does not answer as the event `numba:compile`.

The engine logs one line as soon as a process has compiled for a second, while the compiler is still
at work, and pauses Python's garbage collector meanwhile. The runner subtracts the seconds, which
belong to no fit and to no limit.
"""

import functools
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Seconds of compiling in a process before the line is logged: shorter waits need no explanation.
# Set by hand.
PATIENCE_S = 1.0
MESSAGE = "compiling, once on this machine"


class CompileClock:
    """Adds up the compilations of this process, and reports when one begins and when it ends.

    Parameters
    ----------
    report : Called with True when numba begins to compile and with False when it has finished

    Attributes
    ----------
    wall_s, cpu_s : float
        Seconds spent compiling so far. A compilation inside another is counted once.
    """

    def __init__(self, report: Callable[[bool], None]) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._report = report
        self._depth = 0
        self._listening = False

    def listen(self) -> None:
        """Begin to count, if numba is imported; without numba nothing is compiled."""
        if self._listening or "numba" not in sys.modules:
            return
        from numba.core import event

        clock = self

        class Listener(event.Listener):
            def on_start(self, _: Any) -> None:
                clock.begin()

            def on_end(self, _: Any) -> None:
                clock.end()

        event.register("numba:compile", Listener())
        self._listening = True

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Do not count what is compiled in the block."""
        before = self.wall_s, self.cpu_s
        yield
        self.wall_s, self.cpu_s = before

    def begin(self) -> None:
        """A compilation begins. numba's lock lets one thread at a time compile."""
        self._depth += 1
        if self._depth == 1:
            self._wall, self._cpu = time.perf_counter(), time.thread_time()
            with suppress(OSError):
                self._report(True)

    def end(self) -> None:
        """A compilation has ended."""
        self._depth -= 1
        if self._depth == 0:
            self.wall_s += time.perf_counter() - self._wall
            self.cpu_s += time.thread_time() - self._cpu
            with suppress(OSError):
                self._report(False)


class Announcement:
    """Logs `MESSAGE`, once, when this process has compiled for `patience_s` seconds in all.

    Attributes
    ----------
    clock : CompileClock
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.clock = CompileClock(self._wait)
        self._patience_s = patience_s
        self._timer = threading.Timer(0.0, self._log)
        self._logged = False

    def _wait(self, compiling: bool) -> None:
        self._timer.cancel()
        if compiling and not self._logged:
            seconds_left = max(0.0, self._patience_s - self.clock.wall_s)
            self._timer = threading.Timer(seconds_left, self._log)
            self._timer.daemon = True
            self._timer.start()

    def _log(self) -> None:
        self._logged = True
        # A warning: lower levels are not shown where nobody has configured logging.
        logging.getLogger("kbench").warning(MESSAGE)


class CollectorPause:
    """Stops Python's cyclic garbage collector while numba compiles.

    numba makes hundreds of thousands of objects for a large function, and the collector would look
    at all of them, and at the imported packages' ones, again and again: an eighth of the time
    of a compilation. Without it the first fit of KernelSVC takes 20 MiB more.
    """

    def __init__(self) -> None:
        self._was_enabled = False

    def set(self, compiling: bool) -> None:
        """Stop the collector, or go on as it was before."""
        if compiling:
            self._was_enabled = gc.isenabled()
            gc.disable()
        elif self._was_enabled:
            gc.enable()


@functools.cache
def watch_compiling() -> None:
    """Announce long compiling, and pause the collector. Packages with compiled code call it."""
    Announcement().clock.listen()
    CompileClock(CollectorPause().set).listen()
