"""numba's compilations in this process: a clock for their seconds, and a log line for a long wait.

numba compiles a function at its first call and keeps the code in its cache on disk. numba announces
a compilation, unless the cache has the code, as the event `numba:compile`.

kbench logs one line as soon as a process has compiled for a second, while the compiler is still
at work, and pauses Python's garbage collector meanwhile. The runner subtracts these seconds from
the time of a fit and from limits.
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

# Seconds of compiling in a process before the line is logged. Set by hand: users need no
# explanation of shorter waits.
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
        Seconds spent compiling so far. Nested compilations are not counted twice.
    """

    def __init__(self, report: Callable[[bool], None]) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._report = report
        self._depth = 0
        self._is_listening = False

    def listen(self) -> None:
        """Begin to count, if numba is imported."""
        if self._is_listening or "numba" not in sys.modules:
            return
        from numba.core import event

        clock = self

        class Listener(event.Listener):
            def on_start(self, _: Any) -> None:
                clock.begin()

            def on_end(self, _: Any) -> None:
                clock.end()

        event.register("numba:compile", Listener())
        self._is_listening = True

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Do not count compilations in the block."""
        before = self.wall_s, self.cpu_s
        yield
        self.wall_s, self.cpu_s = before

    def begin(self) -> None:
        """Start the clock; because of numba's lock only one thread compiles at a time."""
        self._depth += 1
        if self._depth == 1:
            self._wall, self._cpu = time.perf_counter(), time.thread_time()
            with suppress(OSError):
                self._report(True)

    def end(self) -> None:
        """Stop the clock at the end of the outermost compilation."""
        self._depth -= 1
        if self._depth == 0:
            self.wall_s += time.perf_counter() - self._wall
            self.cpu_s += time.thread_time() - self._cpu
            with suppress(OSError):
                self._report(False)


class Announcement:
    """Logs `MESSAGE` once, when this process has compiled for `patience_s` seconds in all.

    Attributes
    ----------
    clock : CompileClock
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.clock = CompileClock(self._set_timer)
        self._patience_s = patience_s
        self._timer = threading.Timer(0.0, self._log)
        self._is_logged = False

    def _set_timer(self, is_compiling: bool) -> None:
        self._timer.cancel()
        if is_compiling and not self._is_logged:
            seconds_left = max(0.0, self._patience_s - self.clock.wall_s)
            self._timer = threading.Timer(seconds_left, self._log)
            self._timer.daemon = True
            self._timer.start()

    def _log(self) -> None:
        self._is_logged = True
        # The level is warning, because lower levels are not shown unless logging is configured.
        logging.getLogger("kbench").warning(MESSAGE)


class CollectorPause:
    """Stops Python's cyclic garbage collector while numba compiles.

    numba makes hundreds of thousands of objects for a large function. The collector would visit
    these objects and those of imported packages again and again, which takes an eighth of the time
    of a compilation (0.5 of 4.1 s in the first fit of KernelSVC to digits). Without the collector
    this fit takes 20 MiB more.
    """

    def __init__(self) -> None:
        self._was_enabled = False

    def set(self, is_compiling: bool) -> None:
        """Stop the collector, or restore its state from before the compilation."""
        if is_compiling:
            self._was_enabled = gc.isenabled()
            gc.disable()
        elif self._was_enabled:
            gc.enable()


@functools.cache
def watch_compiling() -> None:
    """Announce long compiling and pause the collector; packages with compiled code call this."""
    Announcement().clock.listen()
    CompileClock(CollectorPause().set).listen()
