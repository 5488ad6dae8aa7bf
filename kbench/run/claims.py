"""Which runner does which run, when several share one results folder.

A claim is a lock on one byte of one file, at an offset that is the key's own: it needs no file
per run, is given back by the kernel when its holder dies, and works over NFS. The process must
open the file once only, since closing any descriptor of it would give back every claim.
"""

import fcntl
import os
from pathlib import Path


class Claims:
    """Claims of this process in one results folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(folder / "_claims", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def take(self, key: str) -> bool:
        """Claim a run; False while another process has it."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._offset(key))
        except OSError:
            return False
        return True

    def give_back(self, key: str) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, self._offset(key))

    def close(self) -> None:
        os.close(self._fd)

    @staticmethod
    def _offset(key: str) -> int:
        return int(key[:15], 16)
