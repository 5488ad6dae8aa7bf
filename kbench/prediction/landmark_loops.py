"""Compiled evaluation of landmarks leaf by leaf, for `kbench.prediction.landmarks`.

Rows are sorted by leaf, so that a leaf's numbers, which take many more bytes than a row, are read
once for several rows. A vector holds sixteen landmarks for one row or, if a leaf has enough rows
and reads all features, sixteen rows for one landmark, which avoids sums over the entries of
vectors. Both ways add in the same order and give the same bits. Names in `_at` are addresses.
"""

import numpy as np
from numba import njit

from kbench.intrinsics.landmark_tiles import (
    BLOCKS,
    LANES,
    ROWS,
    VECTORS,
    form_block,
    kernels_of_one_vector,
    kernels_of_vectors,
    lower_block,
    powers,
    row_by_1,
    row_by_blocks,
    rows_by_1,
    rows_by_blocks,
    square_roots,
    transposed,
    upper_block,
    weighted_sum,
    weighted_sums,
)

# Rows of a leaf are evaluated in groups of at most 60 rows and 16 KiB of features. Larger groups
# read the leaf's numbers less often, but their rows and kernel values leave the L1 cache
# (`scripts/bench_fast_prediction.py`).
_GROUP_ROWS, _GROUP_BYTES = 60, 1 << 14
# A vector holds sixteen rows, not sixteen landmarks, if the leaf has at most 64 features and at
# least 6 rows remain. Set by hand.
_MAX_FEATURES, _MIN_ROWS = 64, 6


@njit(inline="always")
def _exponents(rows_at, n, features_at, table_at, n_features, n_blocks, at, slot):
    """Write the exponents of a leaf's landmarks at n of its rows.

    `rows_at` holds at least n + ROWS - 1 valid addresses, since tiles read beyond the last row.
    """
    block = 4 * (n_features + 1) * LANES
    r = 0
    # A tile takes as long for fewer than ROWS rows; the last one or two rows go alone. Set by
    # hand.
    while n - r > 2:
        b = 0
        while n_blocks - b >= BLOCKS:
            block_at, into_at = table_at + b * block, at + 4 * (slot * r + LANES * b)
            rows_by_blocks(rows_at + 8 * r, features_at, block_at, n_features, into_at, slot)
            b += BLOCKS
        if n_blocks > b:
            block_at, into_at = table_at + b * block, at + 4 * (slot * r + LANES * b)
            rows_by_1(rows_at + 8 * r, features_at, block_at, n_features, into_at, slot)
        r += ROWS
    while r < n:
        b = 0
        while n_blocks - b >= BLOCKS:
            block_at, into_at = table_at + b * block, at + 4 * (slot * r + LANES * b)
            row_by_blocks(rows_at + 8 * r, features_at, block_at, n_features, into_at, slot)
            b += BLOCKS
        if n_blocks > b:
            block_at, into_at = table_at + b * block, at + 4 * (slot * r + LANES * b)
            row_by_1(rows_at + 8 * r, features_at, block_at, n_features, into_at, slot)
        r += 1


@njit(inline="always")
def _sums_across(
    rows_at, n, n_features, table_at, coef_at, n_blocks, points_at, values_at, sums_at, n_outputs
):
    """Write sum_j coef_j k(x, u_j) at a leaf's first rows as (vectors, n_outputs, 16 rows).

    Returns the number of rows that were evaluated, at most n; fewer than `_MIN_ROWS` rows remain.
    `rows_at` holds valid addresses up to the next multiple of sixteen.
    """
    slot, width = LANES * LANES * n_blocks, LANES * n_features
    block = 4 * (n_features + 1) * LANES
    r = 0
    while n - r >= _MIN_ROWS:
        n_vectors = VECTORS if n - r > LANES * (VECTORS - 1) else 1
        for v in range(n_vectors):
            transposed(rows_at + 8 * (r + LANES * v), n_features, points_at + 4 * width * v)
        for b in range(n_blocks):
            block_at, into_at = table_at + b * block, values_at + 4 * LANES * LANES * b
            if n_vectors > 1:
                kernels_of_vectors(points_at, block_at, n_features, into_at, slot)
            else:
                kernels_of_one_vector(points_at, block_at, n_features, into_at, slot)
        for v in range(n_vectors):
            for o in range(n_outputs):
                weighted_sums(
                    values_at + 4 * slot * v, coef_at + 4 * LANES * n_blocks * o, n_blocks, sums_at
                )
                sums_at += 4 * LANES
        r += LANES * n_vectors
    return min(n, r)


@njit(inline="always")
def _bound_columns(at, column_at, span_at, n_blocks, n_landmarks, n_bounds, pseudo):
    """Write the columns of the triangle inequality after the kernel values.

    pseudo : index in `landmarks.PSEUDO_KINDS`; 2 has the lower bounds, 3 the upper ones, 4 both.
    Returns the number of blocks of columns, kernel values included.
    """
    square_roots(at, n_blocks)
    total = n_blocks
    for _ in range(n_bounds):
        if pseudo != 3:
            lower_block(at, span_at, n_landmarks, column_at + 4 * LANES * total)
            total += 1
        if pseudo != 2:
            upper_block(at, span_at, n_landmarks, column_at + 4 * LANES * total)
            total += 1
        span_at += 4 * n_landmarks * LANES
    return total


@njit(inline="always")
def _by_leaf(labels, n_leaves):
    """Row numbers sorted by leaf, and the position after the last row of each leaf."""
    if n_leaves == 1:
        return np.arange(labels.shape[0]), np.full(1, labels.shape[0])
    ends = np.zeros(n_leaves + 1, np.int64)
    for i in range(labels.shape[0]):
        ends[labels[i] + 1] += 1
    for leaf in range(n_leaves):
        ends[leaf + 1] += ends[leaf]
    order = np.empty(labels.shape[0], np.int64)
    for i in range(labels.shape[0]):
        leaf = labels[i]
        order[ends[leaf]] = i
        ends[leaf] += 1
    return order, ends


@njit(nogil=True, cache=True, error_model="numpy")
def evaluate_leaves(
    X, labels, features, all_features, leaves, table, spans, coef, constant, pseudo, slot, values
):
    """Write values : (u, m) of rows X : (u, d) in the leaves `labels`.

    features : (1 or K, f); all_features : whether these are 0 .. d - 1 in all leaves. leaves :
    (K, 7), numbers of blocks of landmarks, landmarks, blocks of bounds and rows of the quadratic
    form, then the offsets of the leaf in table, spans and coef (`landmark_layout` packs them).
    constant : (K, m). pseudo : index in `landmarks.PSEUDO_KINDS`. slot : largest number of columns
    of a leaf, padding included, which is the stride between rows in the buffers.
    """
    n_features, n_outputs = features.shape[1], constant.shape[1]
    order, ends = _by_leaf(labels, leaves.shape[0])
    across = pseudo == 0 and all_features and LANES <= n_features <= _MAX_FEATURES
    if across:
        group = LANES * VECTORS
    else:
        group = max(1, min(_GROUP_ROWS, _GROUP_BYTES // (4 * X.shape[1])) // ROWS) * ROWS
    # Tiles read addresses, and write values, beyond the last row of a group.
    addresses = np.empty(group + LANES, np.int64)
    size = (group + LANES) * slot
    scratch = np.empty(2 * size + (group * n_features if across else 0) + LANES, np.float32)
    # Addresses are multiples of 64 bytes, so that no vector crosses a cache line.
    at = (scratch.ctypes.data + 4 * LANES - 1) & -(4 * LANES)
    columns_at, points_at = at + 4 * size, at + 8 * size
    sums = np.empty((group // LANES + 1, n_outputs, LANES), np.float32)
    spans_at, x_at = spans.ctypes.data, X.ctypes.data
    begin = 0
    for leaf in range(leaves.shape[0]):
        n_blocks, n_landmarks, n_bounds, n_rows = leaves[leaf, :4]
        features_at = features.ctypes.data
        if features.shape[0] > 1:
            features_at += 4 * leaf * n_features
        table_at = table.ctypes.data + 4 * leaves[leaf, 4]
        coef_at = coef.ctypes.data + 4 * leaves[leaf, 6]
        for start in range(begin, ends[leaf], group):
            # Each step is done for all rows of a group, because rows of one step are independent.
            n = min(group, ends[leaf] - start)
            if n_blocks == 0:
                for r in range(n):
                    for o in range(n_outputs):
                        values[order[start + r], o] = constant[leaf, o]
                continue
            for r in range(n + (LANES if across else ROWS)):
                i = order[start + min(r, n - 1)]
                addresses[r] = x_at + 4 * i * X.shape[1]
            rows_at, first = addresses.ctypes.data, 0
            if across:
                first = _sums_across(
                    rows_at,
                    n,
                    n_features,
                    table_at,
                    coef_at,
                    n_blocks,
                    points_at,
                    at,
                    sums.ctypes.data,
                    n_outputs,
                )
            for v in range((first + LANES - 1) // LANES):
                for o in range(n_outputs):
                    lane_sums = sums[v, o]
                    for r in range(LANES * v, min(first, LANES * (v + 1))):
                        total = np.float64(lane_sums[r - LANES * v])
                        values[order[start + r], o] = constant[leaf, o] + total
            start, n = start + first, n - first
            rows_at += 8 * first
            _exponents(rows_at, n, features_at, table_at, n_features, n_blocks, at, slot)
            for r in range(n):
                powers(at + 4 * slot * r, columns_at + 4 * slot * r, n_blocks)
            for r in range(n):
                i, column_at, total = order[start + r], columns_at + 4 * slot * r, n_blocks
                if n_bounds > 0:
                    span_at, exponent_at = spans_at + 4 * leaves[leaf, 5], at + 4 * slot * r
                    total = _bound_columns(
                        exponent_at, column_at, span_at, n_blocks, n_landmarks, n_bounds, pseudo
                    )
                output_at = coef_at
                for o in range(n_outputs):
                    values[i, o] = constant[leaf, o]
                    if n_rows == 0:
                        values[i, o] += weighted_sum(column_at, output_at, total)
                        output_at += 4 * LANES * total
                        continue
                    for b in range(total):
                        block_at = column_at + 4 * LANES * b
                        values[i, o] += form_block(column_at, block_at, output_at, n_rows)
                        output_at += 4 * LANES * (n_rows + 1)
        begin = ends[leaf]
