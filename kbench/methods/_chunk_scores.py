"""Scores of estimators on rows in chunks."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kbench.chunked import ChunkedRows

_BOTH = "rows in chunks bring their targets, and take no sample_weight"


def require_alone(y: Any, sample_weight: Any) -> None:
    """Raise a ValueError for targets or weights beside rows in chunks."""
    if y is not None or sample_weight is not None:
        raise ValueError(_BOTH)


class ChunkScores:
    """`score` for `ChunkedRows`, before that of scikit-learn's mixins for arrays."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, coefficient of determination of a regressor.

        Parameters
        ----------
        X : (u, d) array or CSR, or ChunkedRows
            `ChunkedRows` bring their targets; they are read once, and no value of a row is kept.
        y : (u,) labels; (u,) or (u, m) targets
        sample_weight : (u,), optional
        """
        if not isinstance(X, ChunkedRows):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        require_alone(y, sample_weight)
        predict = self.predict  # type: ignore[attr-defined]
        if is_classifier(self):
            right = sum(np.count_nonzero(predict(block.X) == block.y) for block in X.blocks())
            return float(right / len(X))
        return _determination(X, predict)


def _determination(rows: ChunkedRows, predict: Any) -> float:
    """R^2, the mean over several targets, as scikit-learn's `r2_score`."""
    shift: Any = None
    for block in rows.blocks():
        y = np.asarray(block.y, np.float64).reshape(block.X.shape[0], -1)
        if shift is None:
            shift, sums = y.mean(axis=0), np.zeros((3, y.shape[1]))
        errors = y - predict(block.X).reshape(y.shape)
        moved = y - shift
        sums += np.square(errors).sum(axis=0), moved.sum(axis=0), np.square(moved).sum(axis=0)
    residual, total, squares = sums
    spread = squares - total**2 / len(rows)
    scores = np.where(residual > 0.0, 1.0 - residual / np.where(spread > 0.0, spread, 1.0), 1.0)
    return float(np.where((spread <= 0.0) & (residual > 0.0), 0.0, scores).mean())
