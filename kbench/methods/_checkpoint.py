"""State of a long fit in a file, so that a killed one continues where it was.

The file is replaced as a whole. It holds arrays, and the parameters and the data that they belong
to: another fit is refused it.
"""

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


class Checkpoint:
    """A file that is written now and then, and read when it is there.

    Parameters
    ----------
    path : str or Path
    every_s : float
        Least seconds between two writings.
    identity : mapping of str to numbers or str
        What must be equal for a continuation to be the same fit.
    """

    def __init__(self, path: str | Path, every_s: float, identity: Mapping[str, Any]) -> None:
        self.path, self.every_s = Path(path), every_s
        self.identity = json.loads(json.dumps(dict(identity), default=str))
        self._written = time.monotonic()

    def read(self) -> dict[str, np.ndarray] | None:
        """The arrays of the file; None where there is none.

        Raises
        ------
        ValueError
            No checkpoint, a damaged one, or that of another fit.
        """
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = dict(file)
            identity = json.loads(str(arrays.pop("identity")))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self.path} is no readable checkpoint: {error}") from None
        for name in self.identity:
            if identity.get(name) != self.identity[name]:
                raise ValueError(
                    f"{self.path} is the checkpoint of another fit: {name} was "
                    f"{identity.get(name)!r}, is {self.identity[name]!r}; remove the file to "
                    "start anew"
                )
        return arrays

    def due(self) -> bool:
        return time.monotonic() - self._written >= self.every_s

    def write(self, arrays: Mapping[str, Any]) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                np.savez(file, identity=json.dumps(self.identity), **arrays)
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)
        self._written = time.monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def fingerprint(*arrays: Any) -> str:
    """Hash of the shapes of arrays or CSR matrices and of up to 1,000 of their rows."""
    digest = hashlib.sha256()
    for array in arrays:
        rows = np.unique(np.linspace(0, array.shape[0] - 1, 1000).astype(np.intp))
        part = array[rows]
        part = part.toarray() if sp.issparse(part) else part
        digest.update(
            f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(part).tobytes()
        )
    return digest.hexdigest()
