"""Rows that are read block by block: training and test sets that are larger than memory.

A `ChunkedRows` takes the place of the array X and the targets y in `fit`, `predict`,
`decision_function` and `score` of estimators that can learn out of core. A `ChunkedRows` knows how
to read its rows again from the beginning, how much memory a fit may use for rows, and in which
folder a fit may store rows. `kbench.data` makes `ChunkedRows` of files and of generators.
"""

from collections.abc import Callable, Iterator
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbench.errors import DataError

# Fraction of `memory_mb` for the rows of one block. A fit holds a block, its sorted copy, and twice
# a block's memory for the solver and the index. Set by hand.
_BLOCK_FRACTION = 1 / 8
# Default of `memory_mb`, in MiB. Set by hand.
MEMORY_MB = 1024.0
# Types of values that estimators take unchanged; other numbers are converted to float64.
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Block(NamedTuple):
    """Consecutive rows."""

    X: Any  # (b, d) array or CSR of float32 or float64
    y: np.ndarray | None = None  # (b,)
    place: str = ""  # file and chunk, for messages; a block of several chunks names the first


class ChunkedRows:
    """n rows of d features with their targets, read block by block, as often as needed.

    Parameters
    ----------
    read : callable
        `read(rows)` returns a new iterator over all rows in order, as chunks (`Block` or (X, y)).
        A chunk should have about `rows` rows; `blocks` divides larger chunks, and joins smaller
        ones. X is an array or CSR, y may be None for rows that are only predicted. Every call has
        to give the same rows.
    n_features : int
    n_rows : int, optional
        If n_rows is missing, `len` reads all rows once.
    dtype : float32 or float64
        Blocks of other types are converted.
    classes : sequence of labels, optional
        Labels that may occur; by default every label is accepted.
    memory_mb : float
        Memory in MiB that a process of a fit or a prediction may use for rows and models. The
        sizes of blocks, and of the clusters that are trained as a whole, follow from this limit.
    scratch : path, optional
        Folder on disk for rows that are sorted by cluster and for models of clusters. If a fit is
        interrupted, another fit with the same folder, rows and parameters continues it. By default
        the folder is temporary and removed when the fit ends.

    Attributes
    ----------
    shape : (n, d)
    dtype : dtype of float32 or float64

    Examples
    --------
    >>> import numpy as np
    >>> from kbench.data import ChunkedRows
    >>> X, y = np.zeros((10, 3), np.float32), np.arange(10) % 2
    >>> rows = ChunkedRows.of_arrays(X, y)
    >>> len(rows), [block.X.shape for block in rows.blocks(4)]
    (10, [(4, 3), (4, 3), (2, 3)])
    """

    def __init__(
        self,
        read: Callable[[int], Iterator[Any]],
        *,
        n_features: int,
        n_rows: int | None = None,
        dtype: Any = np.float32,
        classes: Any = None,
        memory_mb: float = MEMORY_MB,
        scratch: str | Path | None = None,
    ) -> None:
        self._read, self.n_features, self._n_rows = read, n_features, n_rows
        self.dtype = np.dtype(dtype)
        if self.dtype not in FLOATS:
            raise ValueError(f"dtype is {self.dtype}, should be float32 or float64")
        memory: Any = memory_mb
        if not (isinstance(memory, Real) and float(memory) > 0):
            raise ValueError(f"memory_mb is {memory_mb!r}, should be a positive number")
        self.classes = None if classes is None else np.asarray(classes)
        self.memory_mb = memory_mb
        self.scratch = None if scratch is None else Path(scratch)

    @classmethod
    def of_arrays(cls, X: Any, y: np.ndarray | None = None, **options: Any) -> "ChunkedRows":
        """Rows of arrays, which may be memory maps.

        Parameters
        ----------
        X : (n, d) array or CSR of float32 or float64
        y : (n,) array, optional
        **options
            `classes`, `memory_mb` and `scratch`.
        """
        n, d = X.shape

        def read(rows: int) -> Iterator[Block]:
            for start in range(0, n, rows):
                block = slice(start, start + rows)
                yield Block(X[block], None if y is None else y[block], f"rows from {start + 1} on")

        return cls(read, n_features=d, n_rows=n, dtype=X.dtype, **options)

    @classmethod
    def of_dask(cls, X: Any, y: Any = None, **options: Any) -> "ChunkedRows":
        """Rows of a Dask array or dataframe, computed a partition at a time at every pass.

        Parameters
        ----------
        X : (n, d) dask.array.Array or dask.dataframe.DataFrame of numbers
            A partition has to fit into memory. An array needs all its columns in one chunk.
        y : (n,) dask.array.Array or dask.dataframe.Series, optional
            Targets in the same partitions as X.
        **options
            `dtype` (by default that of X, float64 for columns that are not all float32), `classes`,
            `memory_mb` and `scratch`.

        Raises
        ------
        ValueError
            y is not a Dask collection, X and y have different numbers of partitions, or the columns
            of X are in several chunks.
        """
        if not (y is None or is_dask(y)):
            raise ValueError(
                f"X is a Dask collection, so y should be one, too, in the same partitions; it is "
                f"{type(y).__name__}"
            )
        partitions = _delayed(X)
        targets = [None] * len(partitions) if y is None else _delayed(y)
        if len(targets) != len(partitions) or (hasattr(X, "chunks") and len(X.chunks[1]) > 1):
            raise ValueError(
                f"X has {len(partitions)} partitions and y {len(targets)}; rechunk them alike, "
                "with all columns in one chunk"
            )

        def read(_: int) -> Iterator[Block]:
            for k, (partition, target) in enumerate(zip(partitions, targets, strict=True), start=1):
                rows = partition.compute()
                labels = None if target is None else np.asarray(target.compute())
                rows = np.ascontiguousarray(rows) if not hasattr(rows, "indptr") else rows
                yield Block(rows, labels, f"partition {k}")

        if "dtype" not in options:
            types = list(X.dtypes) if hasattr(X, "dtypes") else [X.dtype]
            all_float32 = all(dtype == np.float32 for dtype in types)
            options["dtype"] = np.float32 if all_float32 else np.float64
        return cls(read, n_features=int(X.shape[1]), **options)

    def __len__(self) -> int:
        if self._n_rows is None:
            self._n_rows = sum(block.X.shape[0] for block in self.blocks())
        return self._n_rows

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.n_features

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise ValueError(
            "X is ChunkedRows, rows that are read block by block, and this estimator takes an "
            "array here: pass the X of each of its blocks() in turn"
        )

    @property
    def block_rows(self) -> int:
        """Number of rows of a block that takes an eighth of `memory_mb` as a dense array."""
        row_bytes = self.n_features * self.dtype.itemsize
        return max(1, int(_BLOCK_FRACTION * self.memory_mb * 2**20 / row_bytes))

    def blocks(self, rows: int | None = None) -> Iterator[Block]:
        """All rows in order, checked, in blocks of `rows` rows; the last block may have fewer.

        Parameters
        ----------
        rows : int, default `block_rows`

        Raises
        ------
        DataError
            A chunk does not have `n_features` columns or as many targets as rows, a label is not
            in `classes`, or an entry is not finite. The message names file, chunk, row and column.
        """
        rows = self.block_rows if rows is None else rows
        buffered: list[Block] = []
        n_buffered = total = 0
        for k, raw in enumerate(self._read(rows), start=1):
            block = self._checked(raw if isinstance(raw, Block) else Block(*raw), k)
            total += block.X.shape[0]
            while block.X.shape[0] and n_buffered + block.X.shape[0] >= rows:
                head = rows - n_buffered
                yield _joined([*buffered, _sliced(block, slice(0, head))])
                block, buffered, n_buffered = _sliced(block, slice(head, None)), [], 0
            if block.X.shape[0]:
                buffered.append(block)
                n_buffered += block.X.shape[0]
        if buffered:
            yield _joined(buffered)
        self._n_rows = total

    def _checked(self, block: Block, chunk_number: int) -> Block:
        X, y = block.X, block.y
        place = block.place or f"chunk {chunk_number}"
        if X.shape[1] != self.n_features:
            raise DataError(f"{place}: {X.shape[1]} columns, should be {self.n_features}")
        if y is not None and len(y) != X.shape[0]:
            raise DataError(f"{place}: {len(y)} targets for {X.shape[0]} rows")
        if y is not None and self.classes is not None:
            unknown = np.flatnonzero(~np.isin(y, self.classes))
            if len(unknown):
                raise DataError(
                    f"{place}: row {unknown[0] + 1} of the chunk has the label {y[unknown[0]]}, "
                    f"should be one of {', '.join(map(str, self.classes))}"
                )
        X = X if X.dtype == self.dtype else X.astype(self.dtype)
        _require_finite(X, place)
        return Block(X, y, place)


def batches(rows: ChunkedRows, size: int) -> Iterator[Block]:
    """All rows in order in batches of `size`, which do not depend on the chunks; the last batch
    may be smaller.
    """
    for block in rows.blocks(size * max(1, rows.block_rows // size)):
        for start in range(0, block.X.shape[0], size):
            batch = slice(start, start + size)
            yield Block(block.X[batch], None if block.y is None else block.y[batch], block.place)


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask, such as an array, dataframe or series."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def _require_finite(X: Any, place: str) -> None:
    """Raise a DataError that names the first entry of X : (b, d) that is not finite."""
    entries = X if isinstance(X, np.ndarray) else X.data
    # If the sum is finite, all entries are, and no temporary array was needed to find this out.
    with np.errstate(all="ignore"):
        if np.isfinite(entries.sum()):
            return
    not_finite = np.flatnonzero(~np.isfinite(entries).reshape(-1))
    if not len(not_finite):
        return
    if isinstance(X, np.ndarray):
        row, column = np.unravel_index(not_finite[0], X.shape)
    else:
        row = np.searchsorted(X.indptr, not_finite[0], side="right") - 1
        column = X.indices[not_finite[0]]
    raise DataError(
        f"{place}: row {row + 1} of the chunk has {entries.reshape(-1)[not_finite[0]]} in column "
        f"{column + 1}, should be a finite number"
    )


def _delayed(collection: Any) -> list[Any]:
    """The partitions of a Dask array, dataframe or series."""
    partitions = collection.to_delayed()
    return partitions if isinstance(partitions, list) else partitions.ravel().tolist()


def _sliced(block: Block, rows: slice) -> Block:
    return Block(block.X[rows], None if block.y is None else block.y[rows], block.place)


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]
    y = None if first.y is None else np.concatenate([block.y for block in blocks])
    if isinstance(first.X, np.ndarray):
        return Block(np.concatenate([block.X for block in blocks]), y, first.place)
    from scipy.sparse import vstack

    return Block(vstack([block.X for block in blocks], format="csr"), y, first.place)
