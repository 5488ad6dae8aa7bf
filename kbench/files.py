"""Atomic writes: a file is complete and on disk before it gets its name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kbench.errors import KbenchError


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary binary file that is renamed to `path` at the end of the block.

    The folder is created if it does not exist. If the block raises an exception, the temporary file
    is deleted and a file that was at `path` before stays unchanged.

    Raises
    ------
    KbenchError
        The disk is full, or the folder cannot be written; any OSError of the block.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as exc:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(exc, OSError):
            raise KbenchError(f"cannot write {path}: {exc.strerror or exc}") from exc
        raise


def _sync_folder(folder: Path) -> None:
    """Write the names in `folder` to disk, so that a renamed file survives a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
