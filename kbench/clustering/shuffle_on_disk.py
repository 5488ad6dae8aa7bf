"""Rows on disk in the order of their clusters: the shuffle of divide-and-conquer out of core.

One pass over the rows writes *sorted runs*, as in external sorting. A sorted run holds a block of
rows that fits into memory, sorted by cluster, with the position at which each cluster begins. A run
is written in sequence, and a cluster is one contiguous range of each run, so transfers are long and
few files are open, whatever the number of clusters. Reading the clusters in order reads every run
once.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.chunked import Block, ChunkedRows
from kbench.errors import KbenchError
from kbench.files import mapped, mapped_numbers
from kbench.kernels.threads import cached_property

_STARTS = "starts.npy"  # (k + 1,) int64, written last: a run that has it is complete
# Rows that are gathered and written at a time: 13.5 MiB for 54 float32 features. More rows take
# more memory, fewer rows cost more calls. Set by hand.
_ROWS_PER_WRITE = 65536


class _SortedRun:
    """A block of rows in the order of their clusters, as memory maps."""

    def __init__(self, folder: Path, n_features: int, dtype: np.dtype) -> None:
        self.starts = mapped(folder / _STARTS)
        self.y = mapped(folder / "y.npy")
        self._n_features = n_features
        if (folder / "X").exists():
            self._X = mapped_numbers(folder / "X", dtype).reshape(-1, n_features)
            self._csr = None
        else:
            data, indices = (
                mapped_numbers(folder / "data", dtype),
                mapped_numbers(folder / "indices", np.int32),
            )
            self._csr = data, indices, mapped(folder / "indptr.npy")

    def rows(self, cluster: int) -> tuple[Any, np.ndarray]:
        """X : (s, d) array or CSR and y : (s,) of the rows of a cluster."""
        begin, end = self.starts[cluster : cluster + 2]
        if self._csr is None:
            return self._X[begin:end], self.y[begin:end]
        data, indices, indptr = self._csr
        entries = slice(indptr[begin], indptr[end])
        ends = (indptr[begin : end + 1] - indptr[begin]).astype(np.int32)
        shape = (end - begin, self._n_features)
        return sp.csr_matrix((data[entries], indices[entries], ends), shape), self.y[begin:end]


class RowsByCluster:
    """The rows of each of k clusters, on disk.

    Parameters
    ----------
    folder : Folder with the runs that `spill` wrote
    dtype : dtype of the features

    Attributes
    ----------
    sizes : (k,) int64. Rows of each cluster.
    nbytes : int. Bytes on disk.
    """

    def __init__(self, folder: Path, n_runs: int, n_features: int, dtype: Any) -> None:
        self.folder, self.n_runs = folder, n_runs
        self.n_features, self.dtype = n_features, np.dtype(dtype)
        folders = [_run_folder(folder, run) for run in range(n_runs)]
        self._runs = [_SortedRun(run, n_features, self.dtype) for run in folders]

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the files anew.
        return RowsByCluster, (self.folder, self.n_runs, self.n_features, self.dtype)

    @cached_property
    def sizes(self) -> np.ndarray:
        # A process that reads only a few clusters does not need the sizes.
        total = np.diff(self._runs[0].starts)
        for run in self._runs[1:]:
            total += np.diff(run.starts)
        return total

    @property
    def nbytes(self) -> int:
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def run_blocks(self, cluster: int) -> list[tuple[Any, np.ndarray]]:
        """X : (s, d) array or CSR and y : (s,) of a cluster from each run, as memory maps."""
        return [run.rows(cluster) for run in self._runs]

    def cluster(self, cluster: int) -> tuple[Any, np.ndarray]:
        """X : (s, d) array or CSR and y : (s,) of a cluster, in memory, in the order of the rows.

        O(s d) time and memory, and a transfer from disk for each run.
        """
        blocks = self.run_blocks(cluster)
        y = np.concatenate([y for _, y in blocks])
        if sp.issparse(blocks[0][0]):
            return sp.vstack([X for X, _ in blocks], format="csr", dtype=self.dtype), y
        return np.concatenate([X for X, _ in blocks]), y

    def chunked(self, cluster: int, like: ChunkedRows) -> ChunkedRows:
        """The rows of a cluster that is too large for memory, with the resources of `like`."""

        def read(rows: int) -> Any:
            for X, y in self.run_blocks(cluster):
                for start in range(0, len(y), rows):
                    yield Block(X[start : start + rows], y[start : start + rows])

        return ChunkedRows(
            read,
            n_features=self.n_features,
            n_rows=int(self.sizes[cluster]),
            dtype=self.dtype,
            memory_mb=like.memory_mb,
            scratch=like.scratch,
        )


def spill(
    rows: ChunkedRows,
    assign: Callable[[Any, int], np.ndarray],
    n_clusters: int,
    folder: Path,
    *,
    encode: Callable[[Block], np.ndarray],
    nbytes: int,
) -> RowsByCluster:
    """Write all rows in the order of their clusters.

    assign : X : (b, d) and the number of its first row -> (b,) cluster numbers below `n_clusters`
    folder : Created. Complete runs that an interrupted call left there are kept, so the folder has
        to belong to these rows and this `assign`.
    encode : Block -> (b,) targets to write
    nbytes : Expected bytes of all rows; what the folder does not yet hold must be free on the disk

    Raises KbenchError: the disk has not enough free space (checked before anything is written) or
    becomes full; a run that is not complete is removed.

    One pass over the rows, O(n d) time and what `assign` takes. Memory: a block of rows, the sorted
    copy of 65,536 of them, and 16 bytes per row of the block.
    """
    bytes_there = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    with _DiskErrors(folder, nbytes):
        folder.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(folder).free
    if free_bytes < nbytes - bytes_there:
        raise KbenchError(
            f"{folder}: {_gigabytes(nbytes - bytes_there)} are needed for rows in the order of "
            f"their clusters, {_gigabytes(free_bytes)} are free; set scratch to another folder"
        )
    n_runs = start = 0
    for block in rows.blocks():
        first_row, start = start, start + block.X.shape[0]
        run_folder = _run_folder(folder, n_runs)
        n_runs += 1
        if (run_folder / _STARTS).exists():
            continue
        temporary = run_folder.with_name(f".{run_folder.name}.{os.getpid()}")
        try:
            with _DiskErrors(folder, nbytes):
                temporary.mkdir()
                _write_run(
                    temporary, block.X, encode(block), assign(block.X, first_row), n_clusters
                )
                os.rename(temporary, run_folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return RowsByCluster(folder, n_runs, rows.n_features, rows.dtype)


class _DiskErrors:
    """Turns an OSError raised inside `with` into one line about the folder."""

    def __init__(self, folder: Path, nbytes: int) -> None:
        self._folder, self._nbytes = folder, nbytes

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, OSError):
            raise KbenchError(
                f"cannot write to {self._folder}: {error.strerror or error}; rows in the order of "
                f"their clusters take about {_gigabytes(self._nbytes)}"
            ) from error


def _gigabytes(nbytes: int) -> str:
    return f"{nbytes / 1e9:.2f} GB"


def _run_folder(folder: Path, run: int) -> Path:
    return folder / f"run-{run:05d}"


def _write_run(folder: Path, X: Any, y: np.ndarray, labels: np.ndarray, n_clusters: int) -> None:
    # NumPy sorts numbers of up to 16 bits by radix, ten times as fast as wider ones.
    order = np.argsort(labels.astype(np.min_scalar_type(n_clusters)), kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(labels, minlength=n_clusters))).astype(np.int64)
    if sp.issparse(X):
        counts = np.diff(X.indptr)[order]
        np.save(folder / "indptr.npy", np.append(0, np.cumsum(counts, dtype=np.int64)))
        names: tuple[str, ...] = ("data", "indices")
    else:
        names = ("X",)
        # One array serves all batches, because new pages take as long as gathering.
        gathered = np.empty((min(len(order), _ROWS_PER_WRITE), X.shape[1]), X.dtype)
    with ExitStack() as stack:
        files = [stack.enter_context(open(folder / name, "wb")) for name in names]
        for begin in range(0, len(order), _ROWS_PER_WRITE):
            rows = order[begin : begin + _ROWS_PER_WRITE]
            if sp.issparse(X):
                batch = X[rows]
                files[0].write(batch.data.data)
                files[1].write(batch.indices.astype(np.int32, copy=False).data)
                continue
            # Without mode="clip" NumPy would gather into a temporary array and copy it to `out`.
            batch = np.take(X, rows, axis=0, out=gathered[: len(rows)], mode="clip")
            files[0].write(batch.data)
    np.save(folder / "y.npy", y[order])
    np.save(folder / _STARTS, starts)
