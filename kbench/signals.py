"""What Ctrl-C, a SIGTERM, a closed terminal and a closed pipe do to a command.

The first signal raises `Stopped`, so that the command removes what it has begun. Signals that
follow at once are ignored, as an impatient user or a supervisor sends several; a later one ends the
process where it is. While runs are in progress the runner's own handler replaces this one, and a
second signal ends it at once. Under nohup, which ignores SIGHUP, it stays ignored.
"""

import contextlib
import os
import signal
import sys
import time
from types import FrameType

from kbench.streams import drop_output

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds after the first signal in which others are ignored: more than removing files takes.
_PATIENCE_S = 2.0


class Stopped(KeyboardInterrupt):
    """The user or the system ends the command; `signum` is the signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class _Stop:
    """The handler of all signals."""

    def __init__(self) -> None:
        self._first: float | None = None

    def __call__(self, signum: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            raise Stopped(signum)
        if now > self._first + _PATIENCE_S:
            os._exit(128 + signum)


def handled() -> list[signal.Signals]:
    """The signals to handle: all but a SIGHUP that nohup ignores."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signum for signum in SIGNALS if not (ignored and signum == signal.SIGHUP)]


def stop_on_signals() -> None:
    """Install the handler for the rest of the process, which is a command."""
    handler = _Stop()
    for signum in handled():
        signal.signal(signum, handler)


def reader_gone() -> int:
    """Stop writing to an output whose reader, such as `head`, has ended; SIGPIPE's exit code.

    Python ignores SIGPIPE and raises BrokenPipeError instead, which is right while runs are in
    progress.
    """
    drop_output()
    return 128 + signal.SIGPIPE


def exit_code(stop: KeyboardInterrupt) -> int:
    """Say which signal ended the command; 128 plus its number."""
    signum = stop.signum if isinstance(stop, Stopped) else signal.SIGINT
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"kbench: stopped by {signal.Signals(signum).name}", file=sys.stderr, flush=True)
    return 128 + signum
