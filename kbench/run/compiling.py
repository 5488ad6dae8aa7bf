"""The seconds that numba spends compiling, which belong to no fit and to no limit.

numba announces each compilation that its cache does not answer as the event `numba:compile`.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class CompileClock:
    """Adds up the compilations of this process, and reports when one begins and when it ends.

    Parameters
    ----------
    announce : called with True when numba begins to compile and with False when it has finished.

    Attributes
    ----------
    wall_s, cpu_s : float
        Seconds spent compiling so far. A compilation inside another is counted once.
    """

    def __init__(self, announce: Callable[[bool], None]) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._announce = announce
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
                clock._begin()

            def on_end(self, _: Any) -> None:
                clock._end()

        event.register("numba:compile", Listener())
        self._listening = True

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Do not count what is compiled in the block."""
        before = self.wall_s, self.cpu_s
        yield
        self.wall_s, self.cpu_s = before

    def _begin(self) -> None:
        # numba holds its global lock around a compilation, so one thread at a time comes here.
        self._depth += 1
        if self._depth == 1:
            self._wall, self._cpu = time.perf_counter(), time.thread_time()
            with suppress(OSError):
                self._announce(True)

    def _end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.wall_s += time.perf_counter() - self._wall
            self.cpu_s += time.thread_time() - self._cpu
            with suppress(OSError):
                self._announce(False)
