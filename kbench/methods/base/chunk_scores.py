"""Rows in chunks as an argument of the estimators, and scores on them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kbench.chunked import Block, ChunkedRows, is_dask
from kbench.errors import DataError

_NO_TARGETS_OR_WEIGHTS = "ChunkedRows contain their targets: pass neither y nor sample_weight"


def rows_in_chunks(X: Any, y: Any = None, sample_weight: Any = None) -> ChunkedRows | None:
    """X as rows in chunks if it is `ChunkedRows` or a Dask collection, None for other rows.

    X : ChunkedRows, dask.array.Array, dask.dataframe.DataFrame, or rows in memory
    y : dask.array.Array or dask.dataframe.Series, optional
        Targets of a Dask collection; `ChunkedRows` contain their targets.
    sample_weight : Has to be None with rows in chunks

    Raises ValueError: y is passed with `ChunkedRows`, weights are passed with rows in chunks, or y
    is not a Dask collection like X, in the same partitions.
    """
    if isinstance(X, ChunkedRows):
        if y is not None or sample_weight is not None:
            raise ValueError(_NO_TARGETS_OR_WEIGHTS)
        return X
    if not is_dask(X):
        return None
    if sample_weight is not None:
        raise ValueError("Dask collections take no sample_weight")
    return ChunkedRows.of_dask(X, y)


class ChunkScores:
    """`score` for `ChunkedRows`; this class precedes scikit-learn's mixins, which score arrays."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, coefficient of determination of a regressor.

        Parameters
        ----------
        X : (u, d) array or CSR, ChunkedRows, or a Dask array or dataframe
            `ChunkedRows` contain their targets. Rows in chunks are read once; memory holds one
            block of them at a time.
        y : (u,) labels; (u,) or (u, m) targets
        sample_weight : (u,), optional
        """
        rows = rows_in_chunks(X, y, sample_weight)
        if rows is None:
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        predict = self.predict  # type: ignore[attr-defined]
        if is_classifier(self):
            n_correct = sum(np.count_nonzero(predict(b.X) == b.y) for b in _with_targets(rows))
            return float(n_correct / len(rows))
        return _r2_score(rows, predict)


def _with_targets(rows: ChunkedRows) -> Iterator[Block]:
    """Yield the blocks of rows to score; a block without targets is an error."""
    for block in rows.blocks():
        if block.y is None:
            raise DataError(f"{block.place}: rows to score have no targets")
        yield block


def _r2_score(rows: ChunkedRows, predict: Any) -> float:
    """R^2, the mean over several targets, as scikit-learn's `r2_score`."""
    shift: Any = None
    for block in _with_targets(rows):
        y = np.asarray(block.y, np.float64).reshape(block.X.shape[0], -1)
        if shift is None:
            shift, sums = y.mean(axis=0), np.zeros((3, y.shape[1]))
        errors = y - predict(block.X).reshape(y.shape)
        shifted = y - shift
        sums += np.square(errors).sum(axis=0), shifted.sum(axis=0), np.square(shifted).sum(axis=0)
    residual, shifted_sum, squares = sums
    total = squares - shifted_sum**2 / len(rows)
    scores = np.where(residual > 0.0, 1.0 - residual / np.where(total > 0.0, total, 1.0), 1.0)
    return float(np.where((total <= 0.0) & (residual > 0.0), 0.0, scores).mean())
