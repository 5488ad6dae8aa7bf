"""Reader of idx files (MNIST), with images of bytes in one file and their labels in another.

A file begins with two zero bytes, the type (8 for bytes), the number of dimensions and the length
of each dimension as big-endian int32. The entries follow. http://yann.lecun.com/exdb/mnist/
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats import PartRows, place_in_file
from kbench.data.sources.content import read as read_bytes
from kbench.errors import DataError


def read(
    parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str
) -> dict[str, PartRows]:
    """Rows of each part; features are uint8 pixels, in C order of the image."""
    return {part: _part(*paths) for part, paths in parts.items()}


def _part(images: Path, labels: Path) -> PartRows:
    X, y = _array(images), _array(labels)
    if y.ndim != 1:
        raise DataError(f"{labels}: {y.ndim} dimensions, labels should have one")
    if X.ndim < 2:
        raise DataError(f"{images}: {X.ndim} dimension, images should have two or three")
    if X.shape[0] != y.size:
        raise DataError(f"{labels}: {y.size} labels, but {images} has {X.shape[0]} images")
    return PartRows(X.reshape(y.size, -1), y.astype(np.float64), None, place_in_file(labels))


def _array(path: Path) -> np.ndarray:
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != b"\x00\x00\x08" or not 1 <= content[3] <= 3:
        raise DataError(
            f"{path}: begins with {bytes(content[:4]).hex(' ') or 'nothing'}, an idx file of bytes "
            "should begin with 00 00 08 and the number of its dimensions, 1 to 3"
        )
    start = 4 + 4 * content[3]
    shape = [int.from_bytes(content[k : k + 4], "big") for k in range(4, start, 4)]
    size = math.prod(shape)
    if len(content) != start + size or not size:
        dims = " x ".join(str(length) for length in shape)
        raise DataError(
            f"{path}: {len(content)} bytes, should be {start + size} for {dims} entries; cut off "
            "or damaged, fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
