"""Read prepared rows in chunks, for runs whose data are too large for their memory limit."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbench.chunked import MEMORY_MB, ChunkedRows
from kbench.errors import ConfigError
from kbench.run.planning.task import Task

# Fraction of `limits.memory_mb` that the rows may take before they are read in chunks, because a
# fit in memory copies the rows once. Set by hand.
_CHUNKED_FROM_FRACTION = 1 / 2
# Fraction of `limits.memory_mb` for rows and clusters. A fit also needs memory for the solver's
# cache, the model and vectors with an entry for each row. Set by hand.
_ROWS_FRACTION = 3 / 4


class RowsInChunks(NamedTuple):
    """The rows of a run in chunks; `note` says so in the message of its row."""

    train: ChunkedRows
    test: ChunkedRows
    note: str


def wants_chunks(task: Task, data: Any, estimator: Any) -> bool:
    """Whether `dataset.chunks`, the size of the arrays and the estimator ask for chunks.

    Raises ConfigError: `dataset.chunks` is always, but the estimator needs all rows in memory.
    """
    chunks = task.run.dataset_config.get("chunks") or "auto"
    can_chunk = bool(getattr(estimator, "accepts_chunks", False))
    if chunks == "always" and not can_chunk:
        raise ConfigError(
            f"dataset.chunks=always, but {task.run.method} with these parameters needs all rows "
            "in memory"
        )
    memory_mb = task.run.limits.memory_mb
    if chunks == "auto" and memory_mb is not None:
        return can_chunk and _size_mib(data) > _CHUNKED_FROM_FRACTION * memory_mb
    return chunks == "always"


def rows_in_chunks(task: Task, data: Any, estimator: Any) -> RowsInChunks | None:
    """The prepared rows in chunks; None if they are to be read as arrays."""
    if not wants_chunks(task, data, estimator):
        return None
    memory_mb = task.run.limits.memory_mb
    options = {"memory_mb": MEMORY_MB if memory_mb is None else _ROWS_FRACTION * memory_mb}
    # Files of clusters are beside the prepared arrays, where a repeated run finds them.
    prepared = Path(task.prepared)
    scratch = prepared / "scratch" if os.access(prepared, os.W_OK) else None
    limit = f", limits.memory_mb={memory_mb:g}" if memory_mb else ""
    return RowsInChunks(
        ChunkedRows.of_arrays(data.X_train, data.y_train, scratch=scratch, **options),
        ChunkedRows.of_arrays(data.X_test, data.y_test, **options),
        f"rows were read in chunks: {_size_mib(data):,.0f} MiB of rows{limit}",
    )


def _size_mib(data: Any) -> float:
    """MiB of the feature arrays of training and test rows."""
    return sum(a.nbytes for X in (data.X_train, data.X_test) for a in arrays_of(X)) / 2**20


def arrays_of(X: Any) -> tuple[np.ndarray, ...]:
    """The arrays of X : (n, d), dense or CSR."""
    return (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
