"""Reserve runs, so that several runners with one results folder do each run once.

A reservation is a POSIX lock on one byte of the file `_claims`; the run's key gives the offset of
the byte. Such a lock needs no file per run, ends with its process and works over NFS. A process
must open the file only once, because closing any descriptor of it releases all its locks. The file
keeps its older name, because runners of two releases may share a folder.
"""

import contextlib
import fcntl
import logging
import os
from pathlib import Path

from kbench.errors import KbenchError

_LOG = logging.getLogger(__name__)


class Reservations:
    """Reservations of this process in a folder; KbenchError if the folder cannot be written."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "_claims"
        self._has_locks = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise KbenchError(
                f"cannot write results in {folder}: {error.strerror}; name another folder by "
                "results_dir=..."
            ) from None

    def take(self, key: str) -> bool:
        """Reserve a run; returns False if another process has reserved it.

        On a disk without file locks (Lustre without `-o flock`) nothing is reserved, and a warning
        says so once.
        """
        if self._has_locks:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._offset(key))
            except (BlockingIOError, PermissionError):
                return False
            except OSError as error:
                self._has_locks = False
                _LOG.warning(
                    f"the disk of {self._file.parent} has no file locks ({error.strerror}): two "
                    "commands at the same time may do a run twice"
                )
        return True

    def require_folder(self) -> None:
        """Raise KbenchError if the folder was removed, or its disk has gone, since it was opened.

        A row that is written afterwards would create a new folder, without the earlier rows.
        """
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(self._file), os.fstat(self._fd)):
                return
        raise KbenchError(
            f"the folder {self._file.parent} was removed during the command, with the rows in it; "
            "start the same command again"
        )

    def give_back(self, key: str) -> None:
        """Release a reservation."""
        if self._has_locks:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, self._offset(key))

    def close(self) -> None:
        """Release every reservation."""
        os.close(self._fd)

    @staticmethod
    def _offset(key: str) -> int:
        return int(key[:15], 16)  # 60 bits, because the offset in a file is a signed int64
