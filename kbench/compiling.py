"""One log line when compiling takes more than a second, so that nobody waits in front of silence.

Compiled functions are compiled when they are first used and kept in numba's cache on disk. As soon
as that has taken a second in all in a process, the logger "kbench" says so, once, while the
compiler is still at work.
"""

import functools
import logging
import threading
import time
from typing import Any

from numba.core import event

# Seconds of compiling in a process before the line is logged: shorter waits need no explanation.
PATIENCE_S = 1.0
MESSAGE = "compiling, once on this machine"


class Announcement(event.Listener):
    """Listens to numba's compiler and logs `MESSAGE` once it has worked for `patience_s` seconds.

    numba's global lock admits one thread at a time; compilations nest.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._seconds_left = patience_s
        self._depth = 0
        self._start = 0.0
        self._timer = threading.Timer(0.0, self._announce)
        self._announced = False

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1 and not self._announced:
            self._start = time.perf_counter()
            self._timer = threading.Timer(max(0.0, self._seconds_left), self._announce)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._timer.cancel()
            self._seconds_left -= time.perf_counter() - self._start

    def _announce(self) -> None:
        self._announced = True
        # A warning: lower levels are not shown where nobody has configured logging.
        logging.getLogger("kbench").warning(MESSAGE)


@functools.cache
def announce_compiling() -> None:
    """Let this process say when it compiles for long. Packages with compiled code call it."""
    event.register("numba:compile", Announcement())
