"""Atomic writes, which complete a file on disk before it gets its name, and memory maps.

The writer of a temporary file holds a lock on the file. If the lock is free, the writer was killed.
The file's age is no evidence of that, because the clock may jump.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kbench.errors import KbenchError

if TYPE_CHECKING:
    import numpy as np


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary binary file that is renamed to `path` at the end of the block.

    The folder is created if it does not exist. If the block raises an exception, the temporary file
    is deleted and a file that was at `path` before stays unchanged.

    Raises KbenchError: the disk is full, the folder cannot be written, or the block raises an
    OSError.
    """
    try:
        temporary, file = _new_temporary_file(path)
    except OSError as exc:
        raise _cannot_write(path, exc) from exc
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)  # before closing, which releases the lock
        _sync_folder(path.parent)
    except BaseException as exc:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(exc, OSError):
            raise _cannot_write(path, exc) from exc
        raise


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """`atomic_file` for a path that a user names, which may be a link, /dev/stdout or a pipe.

    Links are followed; devices and pipes receive the content at the end of the block.

    Raises KbenchError: as in `atomic_file`.
    """
    if not path.exists() or path.is_file():
        with atomic_file(path.resolve()) as file:
            yield file
        return
    buffer = BytesIO()
    yield buffer
    try:
        with path.open("wb", buffering=0) as device:
            device.write(buffer.getbuffer())
    except OSError as exc:
        raise _cannot_write(path, exc) from exc


def remove_abandoned(temporary: Path) -> None:
    """Delete a temporary file of `atomic_file` if no process is writing it."""
    with suppress(OSError), temporary.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.unlink()


def _new_temporary_file(path: Path) -> tuple[Path, BinaryIO]:
    """A new locked file in the folder of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
        file = temporary.open("xb")
        with suppress(OSError):  # without file locks, abandoned files stay
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink > 0:
            return temporary, file
        file.close()  # another process removed the file as abandoned before it was locked


def _cannot_write(path: Path, error: OSError) -> KbenchError:
    reason = error.strerror or error
    for folder in path.parents:  # mkdir fails for a link whose target is missing
        if os.path.islink(folder) and not os.path.exists(folder):
            reason = f"{folder} is a link to {os.readlink(folder)}, which is not there"
    return KbenchError(f"cannot write {path}: {reason}")


def _sync_folder(folder: Path) -> None:
    """Write the names in `folder` to disk, so that a renamed file survives a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def mapped(path: Path) -> "np.ndarray":
    """An .npy file as a read-only memory map.

    The result is a plain ndarray over the map, because np.memmap costs time in every operation.
    """
    import numpy as np

    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def mapped_numbers(path: Path, dtype: Any) -> "np.ndarray":
    """A binary file of numbers without a header as a plain array on a read-only memory map."""
    import numpy as np

    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
