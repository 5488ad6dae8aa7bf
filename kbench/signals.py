"""What Ctrl-C, a SIGTERM, a closed terminal and a closed pipe do to a command.

The first signal raises `Stopped`, so that the command removes what it has begun. Signals that
follow at once are ignored, as an impatient user or a supervisor sends several; a later one ends the
process where it is. While runs are in progress the runner's own handler replaces this one, and a
second signal ends it at once. Under nohup, which ignores SIGHUP, it stays ignored.

No signal is lost. One that arrives while a process is being started is handled afterwards
(`deferred`). A `Stopped` may be raised at any line of any library. If it is dropped, because a
destructor or a callback of a weak reference cannot raise, the signal is sent again at once; if a
`finally` replaces it by another error, it is raised again where a command or a sweep begins or ends
(`raise_again`, `none_lost`).
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from kbench.streams import drop_output

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds after the first signal in which others are ignored: more than removing files takes. Set by
# hand.
_PATIENCE_S = 2.0
# Seconds after which a signal is sent again whose exception was dropped: the destructor or callback
# that it interrupted, and the hook that Python calls then, have returned even on a busy machine.
# Set by hand.
_AGAIN_S = 0.05


class Stopped(KeyboardInterrupt):
    """The user or the system ends the command; `signum` is the signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class _Stop:
    """The handler of all signals."""

    def __init__(self) -> None:
        self.signum: int | None = None  # of the first signal
        self._first = 0.0

    def __call__(self, signum: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.signum is None:
            self.signum, self._first = signum, now
            raise Stopped(signum)
        if now > self._first + _PATIENCE_S:
            os._exit(128 + signum)

    def again(self, signum: int, ready: threading.Event) -> None:
        """Send the first signal once more, soon, because its exception was dropped."""
        ready.wait()
        time.sleep(_AGAIN_S)
        self.signum = None
        signal.pthread_kill(threading.main_thread().ident or 0, signum)


def handled() -> list[signal.Signals]:
    """The signals to handle: all but a SIGHUP that nohup ignores."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signum for signum in SIGNALS if not (ignored and signum == signal.SIGHUP)]


def stop_on_signals() -> None:
    """Install the handler for the rest of the process, which is a command."""
    handler = _Stop()
    for signum in handled():
        signal.signal(signum, handler)
    default = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        stop = unraisable.exc_value
        if not isinstance(stop, Stopped):
            default(unraisable)
            return
        ready = threading.Event()
        threading.Thread(target=handler.again, args=(stop.signum, ready), daemon=True).start()
        ready.set()

    sys.unraisablehook = hook


def raise_again() -> None:
    """Raise `Stopped` if one was raised before, whatever has come of it."""
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, _Stop) and handler.signum is not None:
        raise Stopped(handler.signum)


@contextlib.contextmanager
def none_lost() -> Iterator[None]:
    """The work of a command: a signal in the block is what ends it, not an error that follows."""
    try:
        yield
    finally:
        raise_again()


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Start a process in this block: it ignores Ctrl-C, and the caller handles signals afterwards.

    A signal in the block waits for its end, so that no process is left half started; a second one
    is handled at once. SIGINT is blocked for the processes that the block starts, until they call
    `ignore_interrupts`: Ctrl-C reaches them as well, and the command alone decides what it means.
    Outside the main thread, in which no signal is handled, the block is run as it is.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # whose start would unblock SIGINT
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {signum: signal.getsignal(signum) for signum in handled()}
    waiting: list[int] = []

    def wait(signum: int, frame: FrameType | None) -> None:
        handler = handlers[signal.Signals(signum)]
        if waiting and callable(handler):
            handler(signum, frame)
        waiting.append(signum)

    for signum in handlers:
        signal.signal(signum, wait)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        for number in waiting[:1]:
            signal.raise_signal(number)


def ignore_interrupts() -> None:
    """Ignore SIGINT in a process that was started in a `deferred` block."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


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
