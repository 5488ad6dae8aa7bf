"""Reader of CIFAR-10's binary version: a tar archive of five training batches and a test batch.

Each image has one byte of label and 3,072 bytes of pixels: red, green and blue, each 32 x 32.
https://www.cs.toronto.edu/~kriz/cifar.html
"""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats import PartRows, listed, parsing, place_in_file
from kbench.data.sources.content import read as read_bytes
from kbench.errors import DataError

# Bytes of an image with its label.
RECORD = 1 + 3 * 32 * 32
BATCHES = {"train": [f"data_batch_{k}.bin" for k in range(1, 6)], "test": ["test_batch.bin"]}


def read(
    parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str
) -> dict[str, PartRows]:
    """Training and test rows of the archive; features are uint8 pixels."""
    ((path,),) = parts.values()
    with (
        parsing(path, "a tar archive of CIFAR-10's batches"),
        tarfile.open(fileobj=io.BytesIO(read_bytes(path))) as archive,
    ):
        members = {Path(m.name).name: m for m in archive if m.isfile()}
        rows_by_part = {
            part: np.vstack([_batch(archive, members, name, path) for name in names])
            for part, names in BATCHES.items()
        }
    return {
        part: PartRows(rows[:, 1:], rows[:, 0].astype(np.float64), None, place_in_file(path))
        for part, rows in rows_by_part.items()
    }


def _batch(archive: tarfile.TarFile, members: Mapping[str, Any], name: str, path: Path) -> Any:
    stream = archive.extractfile(members[name]) if name in members else None
    if stream is None:
        raise DataError(
            f"{path}: no {name} in it, there is {listed(sorted(members))}; should be the binary "
            "version"
        )
    content = stream.read()
    if len(content) % RECORD or not content:
        raise DataError(
            f"{path}: {name} has {len(content)} bytes, should be whole images of {RECORD}"
        )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD)
    wrong = np.flatnonzero(rows[:, 0] > 9)
    if wrong.size:
        label = rows[wrong[0], 0]
        raise DataError(
            f"{path}: {name}, image {wrong[0] + 1}: label {label}, should be from 0 to 9"
        )
    return rows
