"""Effects of Ctrl-C, a SIGTERM, a closed terminal and a closed pipe on a command.

The first signal raises `Stopped`, so that the command removes unfinished files. Signals within the
next seconds are ignored, because impatient users and supervisors send several; a later signal ends
the process at once. While runs are in progress the runner's own handler replaces this handler, and
a second signal ends the runner at once. SIGHUP stays ignored under nohup.

No signal is lost. A signal that arrives while a process is being started is handled afterwards
(`deferred`). `Stopped` may be raised at any line of any library. If Python drops the exception,
because a destructor or a callback of a weak reference cannot raise, the signal is sent again at
once. If a `finally` replaces the exception by another error, `Stopped` is raised again where a
command or a sweep begins or ends (`raise_again`, `no_stop_lost`).
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
# Seconds after the first signal in which further signals are ignored; removing files takes less.
# Set by hand.
_IGNORED_S = 2.0
# Seconds until a signal whose exception was dropped is sent again. By then the interrupted
# destructor or callback, and Python's hook, have returned even on a busy machine. Set by hand.
_RESEND_S = 0.05


class Stopped(KeyboardInterrupt):
    """The user or the system ends the command; `signum` is the signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class _StopHandler:
    """The handler of the signals that end a command."""

    def __init__(self) -> None:
        self.signum: int | None = None  # of the first signal
        self._first_s = 0.0  # time of the first signal

    def __call__(self, signum: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.signum is None:
            self.signum, self._first_s = signum, now
            raise Stopped(signum)
        if now > self._first_s + _IGNORED_S:
            os._exit(128 + signum)

    def send_again(self, signum: int, ready: threading.Event) -> None:
        """Send the first signal again after `_RESEND_S`, because its exception was dropped.

        ready : set when Python's hook is about to return; an exception in it would be dropped, too
        """
        ready.wait()
        time.sleep(_RESEND_S)
        self.signum = None
        signal.pthread_kill(threading.main_thread().ident or 0, signum)


def handled_signals() -> list[signal.Signals]:
    """The signals to handle: all, without SIGHUP under nohup."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signum for signum in SIGNALS if not (ignored and signum == signal.SIGHUP)]


def stop_on_signals() -> None:
    """Install the handler for the rest of the command's process."""
    handler = _StopHandler()
    for signum in handled_signals():
        signal.signal(signum, handler)
    default = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        stop = unraisable.exc_value
        if not isinstance(stop, Stopped):
            default(unraisable)
            return
        ready = threading.Event()
        threading.Thread(target=handler.send_again, args=(stop.signum, ready), daemon=True).start()
        ready.set()

    sys.unraisablehook = hook


def raise_again() -> None:
    """Raise `Stopped` if it was raised before, even if it was caught or replaced."""
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, _StopHandler) and handler.signum is not None:
        raise Stopped(handler.signum)


@contextlib.contextmanager
def no_stop_lost() -> Iterator[None]:
    """Run a command's work: after a signal the block ends with `Stopped`, not with other errors."""
    try:
        yield
    finally:
        raise_again()


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Start a process in this block: it ignores Ctrl-C, and the caller handles signals afterwards.

    A signal in the block waits until the block ends, so that no process is left half started; a
    second signal is handled at once. SIGINT is blocked for processes that the block starts, until
    they call `ignore_interrupts`: the terminal sends Ctrl-C to them as well, but only the command
    reacts to it. Outside the main thread, where Python handles no signals, the block changes
    nothing.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its start inside the block would unblock SIGINT
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {signum: signal.getsignal(signum) for signum in handled_signals()}
    waiting: list[int] = []

    def postpone(signum: int, frame: FrameType | None) -> None:
        handler = handlers[signal.Signals(signum)]
        if waiting and callable(handler):
            handler(signum, frame)
        waiting.append(signum)

    for signum in handlers:
        signal.signal(signum, postpone)
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
    """Stop writing to an output whose reader, such as `head`, has ended; return SIGPIPE's code.

    Python ignores SIGPIPE and raises BrokenPipeError instead, so that runs in progress go on.
    """
    drop_output()
    return 128 + signal.SIGPIPE


def exit_code(stop: KeyboardInterrupt) -> int:
    """Print which signal ended the command; return 128 plus its number as the exit code."""
    signum = stop.signum if isinstance(stop, Stopped) else signal.SIGINT
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"kbench: stopped by {signal.Signals(signum).name}", file=sys.stderr, flush=True)
    return 128 + signum
