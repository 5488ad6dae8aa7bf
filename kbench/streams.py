"""Standard streams to which a command can always write, and limits of the shell.

A daemon closes standard streams, a terminal may show only ASCII, and a disk may be full.
"""

import errno
import io
import os
import resource
import shutil
import sys
from typing import Any, TextIO

from kbench.errors import ConfigError

# Minimum number of open files: a command, its fork server and a worker open 20 at a time, and a
# method may open as many again. Set by hand.
_MIN_OPEN_FILES = 40
# CPU seconds that importing packages and compiling may take: with less a command may be killed
# before it does anything. Set by hand.
_MIN_CPU_SECONDS = 10
# MiB of addresses below which packages may fail to load: libraries of linear algebra and Arrow take
# 700 MiB with two processors, and more with each further processor. Set by hand.
_MIN_MEMORY_MIB = 1024
# Minimum number of characters of a line; in shorter lines some columns would have no width. Set by
# hand.
_MIN_LINE_CHARS = 40


class _LossyFile(io.FileIO):
    """A file that drops what cannot be written, so that no write fails."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def standard_error() -> TextIO:
    """A stream to file descriptor 2 whose writes cannot fail and therefore cannot end a run.

    The stream has the encoding that Python chose for `sys.stderr` (PYTHONIOENCODING).
    """
    buffer = io.BufferedWriter(_LossyFile(2, "w", closefd=False))
    encoding = getattr(sys.stderr, "encoding", None)
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=True)


def open_standard_streams() -> None:
    """Open the null device in place of each standard stream that is closed.

    Otherwise the next opened file would become the stream, and would receive messages. Characters
    that a stream cannot show are written as escapes, such as \\xe9.
    """
    for fd, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, mode)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            os.set_inheritable(fd, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stderr = standard_error()


def terminal_width(default: int) -> int:
    """Columns of the terminal, or `default` if they are unknown; at least `_MIN_LINE_CHARS`."""
    return max(_MIN_LINE_CHARS, shutil.get_terminal_size((default, 24)).columns)  # 24 lines: unused


def require_open_files() -> None:
    """Raise a ConfigError if the shell allows fewer open files than a command needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and soft < _MIN_OPEN_FILES <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_MIN_OPEN_FILES, hard))
    elif soft != resource.RLIM_INFINITY and soft < _MIN_OPEN_FILES:
        raise ConfigError(
            f"this shell allows {soft} open files, kbench needs {_MIN_OPEN_FILES}: `ulimit -n 256`"
        )


def warn_of_cpu_limit() -> None:
    """Warn that the kernel will kill the command soon, without a message of its own."""
    soft, _ = resource.getrlimit(resource.RLIMIT_CPU)
    if soft != resource.RLIM_INFINITY and soft < _MIN_CPU_SECONDS:
        print(
            f"kbench: this shell allows {soft} CPU seconds, after which a command is killed: "
            "`ulimit -t unlimited` in a new shell",
            file=sys.stderr,
        )


def warn_of_disabled_numba() -> None:
    """Warn that methods of kbench will fail, if the shell forbids numba to compile."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        print(
            "kbench: this shell has NUMBA_DISABLE_JIT set, but methods of kbench need compiled "
            "code: `unset NUMBA_DISABLE_JIT`",
            file=sys.stderr,
        )


def memory_limit_remedy() -> str | None:
    """A remedy if the shell allows less memory than loading packages takes, otherwise None."""
    for kind, flag in ((resource.RLIMIT_AS, "-v"), (resource.RLIMIT_DATA, "-d")):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY and soft < _MIN_MEMORY_MIB << 20:
            return (
                f"this shell allows {soft >> 20} MiB of memory, in which packages may not load: "
                f"`ulimit {flag} unlimited` in a new shell; limits.memory_mb=... limits a run"
            )
    return None


def may_lack_memory(error: Exception) -> bool:
    """Whether a lack of memory may cause the error, as the shell's limits or a library say."""
    return memory_limit_remedy() is not None or "failed to map segment" in str(error)


def warn_of_memory_limit() -> None:
    """Warn that any step may fail or hang because the shell allows little memory."""
    if (line := memory_limit_remedy()) is not None:
        print(f"kbench: {line}", file=sys.stderr)


def drop_output() -> None:
    """Drop the buffered and all later text of standard output.

    Otherwise Python would try to write the buffer when it exits, and print an error.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def drop_unwritable_output() -> None:
    """`drop_output` if the buffer of standard output cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()


def describe(error: OSError) -> str:
    """One line on an error of the operating system that no part of a command has handled."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files: allow the shell more, as by `ulimit -n 256`"
    if error.errno == errno.ENOENT and error.filename is None:
        try:
            os.getcwd()
        except FileNotFoundError:
            return "the working directory is gone: change to one that exists"
    reason = error.strerror or str(error)
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF):
        return f"cannot write to standard output: {reason}"
    return reason if error.filename is None else f"{error.filename}: {reason}"
