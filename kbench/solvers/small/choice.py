"""The choice between the two solvers of the exact dual: a measured crossover."""

from typing import Any

import numpy as np

# Points of a binary problem up to which the small-problem solver is faster than `solve_box_dual`.
# Both take the same time at about 2,000 points on covtype_93k (54 features, half of the points
# support vectors) and at 2,500 to 3,000 on ijcnn1 (`scripts/bench_small.py --crossover`).
MAX_POINTS = 2000
# MAX_POINTS for regression: both solvers take the same time at 3,000 to 4,000 rows of kin40k and
# bike, and on cpusmall at 3,000 (C = 10); the crossover is higher for smaller C.
MAX_POINTS_OF_REGRESSION = 3000
# MAX_POINTS if columns of two values are packed as bits (a9a), which makes kernel rows much cheaper
# for `solve_box_dual` alone. Set by hand.
MAX_POINTS_OF_BITS = 500
# Columns are packed if more than this fraction of them has at most two values in this number of
# rows. Set by hand.
_MOSTLY, _SAMPLE = 0.9, 200


def is_small(n: int, X: Any, cache_mb: float, max_points: int = MAX_POINTS) -> bool:
    """Whether the small-problem solver should solve a binary problem, or a regression, of n points.

    n : Points of the problem
    X : (n_train, d) array, CSR or None. The rows; None where only kernel values are given.
    cache_mb : MiB that kernel values may take; the solver stores up to n^2 of them in float32
    max_points : The crossover, `MAX_POINTS` or `MAX_POINTS_OF_REGRESSION`
    """
    if n > max_points or 4.0 * n * n > cache_mb * 2**20:
        return False
    return n <= MAX_POINTS_OF_BITS or not _has_mostly_bits(X)


def _has_mostly_bits(X: Any) -> bool:
    """Whether nearly all columns take at most two values in the first rows."""
    if X is None:
        return False
    rows = X[:_SAMPLE]
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    two = np.all((rows == rows.min(axis=0)) | (rows == rows.max(axis=0)), axis=0)
    return bool(two.mean() > _MOSTLY)
