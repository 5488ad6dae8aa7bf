"""Write the .npy files of prepared data block by block."""

from math import prod
from pathlib import Path
from typing import Any

import numpy as np


class ArrayWriter:
    """An .npy file that is written block by block.

    If the disk is full, `write` raises OSError. A writable memory map would instead end the process
    by SIGBUS.

    Parameters
    ----------
    path : The file, which is overwritten
    shape : tuple of int
        If the first length is None, the rows are counted and the header is written again at the
        end. NumPy pads headers, so the longer number fits without moving the values.
    dtype : dtype
    """

    def __init__(self, path: Path, shape: tuple[int | None, ...], dtype: Any) -> None:
        self._dtype, self._n_rows, self._row_shape = np.dtype(dtype), shape[0], shape[1:]
        self._row_size = prod(size or 0 for size in self._row_shape)
        self._n_written = 0  # entries written
        self._file = open(path, "wb")  # noqa: SIM115
        self._write_header(self._n_rows or 0)

    def write(self, block: np.ndarray) -> None:
        """Append entries in C order."""
        block = np.ascontiguousarray(block, dtype=self._dtype)
        self._n_written += block.size
        self._file.write(block.data)

    def _write_header(self, n_rows: int) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False}
        shape = (n_rows, *self._row_shape)
        np.lib.format.write_array_header_1_0(self._file, header | {"shape": shape})

    def __enter__(self) -> "ArrayWriter":
        return self

    def __exit__(self, exception_type: type[BaseException] | None, *_: object) -> None:
        if exception_type is None and self._n_rows is None:
            self._file.seek(0)
            self._write_header(self._n_written // self._row_size)
        self._file.close()
        if exception_type is None and self._n_rows is not None:
            n_missing = self._n_rows * self._row_size - self._n_written
            if n_missing:
                raise ValueError(f"{self._file.name}: {n_missing} entries were not written")
