"""State of a long fit in a file, from which the fit can continue after it was killed.

The file is replaced atomically. It holds the arrays, the parameters and a hash of the data of the
fit; a fit with other parameters or data is refused.
"""

import hashlib
import json
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.files import atomic_file
from kbench.kernels.chunks import dense_on_used_columns

# Number of evenly spaced rows that a fingerprint hashes: with more rows it detects more changes of
# the data, and takes longer. Set by hand.
_HASHED_ROWS = 1000


class Checkpoint:
    """A checkpoint file of one fit.

    Parameters
    ----------
    interval_s : Least number of seconds between two writes
    identity : mapping of str to numbers or str
        Parameters and data that must be equal for the fit to continue.
    """

    def __init__(self, path: str | Path, interval_s: float, identity: Mapping[str, Any]) -> None:
        self.path, self.interval_s = Path(path), interval_s
        self.identity = json.loads(json.dumps(dict(identity), default=str))
        self._last_write = time.monotonic()

    def read(self) -> dict[str, np.ndarray] | None:
        """The arrays of the file; None if it does not exist.

        Raises
        ------
        ValueError
            The file is not a checkpoint, is damaged, or belongs to another fit.
        """
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = dict(file)
            identity = json.loads(str(arrays.pop("identity")))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self.path} is not a readable checkpoint: {error}") from None
        if not isinstance(identity, dict):
            raise ValueError(
                f"{self.path} is not a readable checkpoint: its identity is {identity!r}"
            )
        for name in self.identity:
            if identity.get(name) != self.identity[name]:
                raise ValueError(
                    f"{self.path} is the checkpoint of another fit: {name} was "
                    f"{identity.get(name)!r}, is {self.identity[name]!r}; remove the file to "
                    "start anew"
                )
        return arrays

    def is_due(self) -> bool:
        return time.monotonic() - self._last_write >= self.interval_s

    def write(self, arrays: Mapping[str, Any]) -> None:
        with atomic_file(self.path) as file:
            np.savez(file, identity=json.dumps(self.identity), **arrays)
        self._last_write = time.monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def fingerprint(*arrays: Any) -> str:
    """Hash of the shapes, dtypes and up to 1,000 rows of arrays or CSR matrices."""
    digest = hashlib.sha256()
    for array in arrays:
        rows = np.unique(np.linspace(0, array.shape[0] - 1, _HASHED_ROWS).astype(np.intp))
        sample = dense_on_used_columns(array[rows])
        digest.update(
            f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(sample).tobytes()
        )
    return digest.hexdigest()
