"""Errors that the user can correct, each a line without traceback, and warnings of fits.

The command line prints `str(error)` and exits with code 2. Any other exception is a
defect of kbench, or a failure of a method, which is stored in the row of its run.
"""

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

NO_CACHE = (
    "numba can write its compiled functions neither beside kbench nor into the user's cache "
    "folder: set NUMBA_CACHE_DIR to a folder that can be written"
)
"""Message for numba's RuntimeError `cannot cache function`, raised when kbench is imported."""

# Largest number of characters of another program's text that a message or row quotes: more would
# hide what kbench says. Set by hand.
_QUOTED_CHARS = 300


def one_line(text: object, max_chars: int | None = None) -> str:
    """A message or exception as text without line ends, of at most `max_chars` characters."""
    line = " ".join(str(text).split())
    is_too_long = max_chars is not None and len(line) > max_chars
    return f"{line[: max_chars - 1]}…" if is_too_long and max_chars else line


def counted(n: int, noun: str) -> str:
    """`1 run`, `2 runs`, `1,200 runs`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def quoted(text: object) -> str:
    """The text of another library or program on one line, cut to `_QUOTED_CHARS` characters."""
    return one_line(text, _QUOTED_CHARS)


def with_type(error: BaseException) -> str:
    """`ValueError: its text`, on one line."""
    return one_line(f"{type(error).__name__}: {error}")


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; if the message is empty, the exception's type."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called `fit`, unless that line is inside `without_warnings`."""
    if not issubclass(category, _suppressed.get()):
        warnings.warn(message, category, stacklevel=_level_of_caller())


# Categories of warnings that are suppressed in this thread.
_suppressed: ContextVar[tuple[type[Warning], ...]] = ContextVar("_suppressed", default=())


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Suppress `warn` in this thread, for fits whose caller gives the warnings itself.

    `warnings.catch_warnings` would change the filters of the whole process: if fits in two threads
    leave it in the order in which they entered it, the process never shows a warning again.
    """
    token = _suppressed.set((*_suppressed.get(), category))
    try:
        yield
    finally:
        _suppressed.reset(token)


def _level_of_caller() -> int:
    """The `stacklevel` of the first line outside kbench and scikit-learn, for a call of
    `warnings.warn` by the caller of this function.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in ("kbench", "sklearn"):
            break
        level, frame = level + 1, frame.f_back
    return level


class KbenchError(Exception):
    """A mistake or a circumstance that the user can correct, described in one line.

    The line names the parameter or `file:line`, the value found there, and what is expected.
    """


class ConfigError(KbenchError):
    """A method, data set, parameter or value that does not exist or is out of range."""


class DataError(KbenchError):
    """A malformed raw file, or loaded data that contradict the facts of their config."""


class DataNotFoundError(DataError):
    """A raw file that is absent and cannot be fetched; the message has its address and folder."""


class ModelError(KbenchError):
    """A model that the open format cannot hold, or a file that holds no such model."""


class UnavailableError(KbenchError):
    """A method whose optional package is not installed or does not work on this machine."""


def required(module: str, needs: str, extra: str) -> Any:
    """Import a module of an optional package.

    Raises UnavailableError: `needs`, a sentence that says what needs the module, and how to install
    the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnavailableError(f"{needs} ({error}); pip install 'kbench[{extra}]'") from error
