"""Local machines on Gaussian landmarks, evaluated leaf by leaf by vector code.

A router sends each row to a leaf. The leaf has landmarks u_j with widths g_j on some of the
features F, columns cb(x) made of their kernel values
(`kbench.approximation.landmarks.pseudo_landmarks`), and m functions

    f(x) = constant + cb(x)'coef,    c_j = exp(-g_j ||x_F - u_j||^2).

This is step 4 of Algorithm 2 of Hsieh, Si and Dhillon, "Fast Prediction for Large-Scale Kernel
Machines" (NIPS 2014), at prediction. Monomials c_i c_j are evaluated as a quadratic form: m^2
multiplications without indexing. Rows are sorted by leaf, so that a leaf's numbers, which take many
more bytes than a row, are read once for several rows. Differences of features are squared, because
the expanded form ||x||^2 - 2 x'u + ||u||^2 cancels. A vector holds sixteen landmarks for one row
or, if a leaf has enough rows and reads all features, sixteen rows for one landmark, which avoids
sums over the entries of vectors. Both ways add in the same order and give the same bits.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numba import njit
from sklearn.utils import assert_all_finite

from kbench.intrinsics.landmark_tiles import (
    BLOCKS,
    LANES,
    ROWS,
    VECTORS,
    form_block,
    kernels_of_1,
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
from kbench.prediction.flops import TRANSCENDENTAL, require_width
from kbench.prediction.packing import (
    LandmarkMachine,
    aligned,
    feature_table,
    joined,
    lanes,
    pack_coef,
    pack_landmarks,
)

# All sizes below were tuned with `scripts/bench_fast_prediction.py`.
# Bytes of rows that are checked and routed together, so that they stay in the L2 cache.
_ROUTED_BYTES = 1 << 18
# Rows of a batch per leaf, so that the numbers of a leaf are read once for about 32 rows. A machine
# with few leaves takes up to 32,768 rows, so that few rows remain beside full tiles.
_LEAF_ROWS, _MOST_ROWS = 32, 1 << 15
# Rows, and their bytes, of a group whose kernel values are held in the L1 cache.
_GROUP_ROWS, _GROUP_BYTES = 60, 1 << 14
# A vector holds sixteen rows, not sixteen landmarks, if the leaf has at most 64 features and at
# least 6 rows remain.
_MOST_FEATURES, _FEWEST_ROWS = 64, 6
# Range of the extent of features over which squared differences neither underflow nor overflow in
# float32; it leaves a margin for differences of a thousandth of the extent and for sums of
# features.
_SMALLEST_EXTENT, _LARGEST_EXTENT = 1e-15, 1e15
# Kinds of columns beside the kernel values, by their number in compiled code.
PSEUDO_KINDS = ("none", "monomials", "lower", "upper", "triangle")


class Router(Protocol):
    """Sends rows to leaves (`kbench.clustering.kmeans_tree`, `kbench.clustering.axis_tree`)."""

    n_leaves: int

    @property
    def nbytes(self) -> int: ...

    def route(self, X: np.ndarray, labels: np.ndarray) -> None:
        """Write the leaves of C-contiguous float32 rows X : (u, d) into labels : (u,) int64."""

    def fits(self, n_features: int) -> bool:
        """Whether rows of `n_features` can be routed."""


@njit(inline="always")
def _exponents(rows_at, n, features_at, table_at, n_features, n_blocks, at, slot):
    """Write the exponents of a leaf's landmarks at n of its rows.

    `rows_at` holds at least n + ROWS - 1 valid addresses, since tiles read beyond the last row.
    """
    block = 4 * (n_features + 1) * LANES
    r = 0
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
    """Write sums of a leaf for the first rows, sixteen rows at a time by output.

    Returns the number of rows done, at most n; fewer than `_FEWEST_ROWS` rows remain. `rows_at`
    holds valid addresses up to the next multiple of sixteen.
    """
    slot, width = LANES * LANES * n_blocks, LANES * n_features
    block = 4 * (n_features + 1) * LANES
    r = 0
    while n - r >= _FEWEST_ROWS:
        n_vectors = VECTORS if n - r > LANES * (VECTORS - 1) else 1
        for v in range(n_vectors):
            transposed(rows_at + 8 * (r + LANES * v), n_features, points_at + 4 * width * v)
        for b in range(n_blocks):
            block_at, into_at = table_at + b * block, values_at + 4 * LANES * LANES * b
            if n_vectors > 1:
                kernels_of_vectors(points_at, block_at, n_features, into_at, slot)
            else:
                kernels_of_1(points_at, block_at, n_features, into_at, slot)
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


# Without "nnan" among the flags: the product of zero and a value that is not finite is NaN.
@njit(fastmath={"reassoc", "nsz"}, nogil=True, cache=True)
def _is_finite(X):
    """Whether all entries of C-contiguous float32 rows are finite."""
    total = np.float32(0.0)
    entries = X.reshape(-1)
    for k in range(entries.shape[0]):
        total += np.float32(0.0) * entries[k]
    return total == np.float32(0.0)


@njit(inline="always")
def _by_leaf(labels, n_leaves):
    """Row numbers sorted by leaf, and for each leaf the position after its last row."""
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
def _evaluate(
    X, labels, features, all_features, leaves, table, spans, coef, constant, pseudo, slot, values
):
    """Write values : (u, m) of rows X : (u, d) in the leaves `labels`.

    features : (1 or K, f); all_features : whether these are 0 .. d - 1 in all leaves. leaves :
    (K, 7), numbers of blocks of landmarks, landmarks, blocks of bounds and rows of the quadratic
    form, then the offsets of the leaf in table, spans and coef. slot : most columns of a leaf.
    """
    n_features, n_outputs = features.shape[1], constant.shape[1]
    order, ends = _by_leaf(labels, leaves.shape[0])
    across = pseudo == 0 and all_features and LANES <= n_features <= _MOST_FEATURES
    if across:
        group = LANES * VECTORS
    else:
        group = max(1, min(_GROUP_ROWS, _GROUP_BYTES // (4 * X.shape[1])) // ROWS) * ROWS
    # Tiles read addresses, and write values, beyond the last row of a group.
    addresses = np.empty(group + LANES, np.int64)
    size = (group + LANES) * slot
    scratch = np.empty(2 * size + (group * n_features if across else 0) + LANES, np.float32)
    # Aligned to 64 bytes, so that no vector crosses a cache line.
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
            # Each step is done for all rows of a group, because the rows are independent within it.
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


class LocalLandmarks:
    """The machines of all leaves, packed for vector code.

    Parameters
    ----------
    router : Router
    machines : list of LandmarkMachine, by leaf
        All read the same number of features, or all read every feature.
    n_features : int
        d
    pseudo : {"none", "monomials", "lower", "upper", "triangle"}
        Kind of columns beside the kernel values.
    offset : (d,) array or None
        Subtracted from rows before they are rounded to float32.

    Attributes
    ----------
    n_parameters : int
        Numbers of the machines, without padding.
    """

    def __init__(
        self,
        router: Router,
        machines: list[LandmarkMachine],
        n_features: int,
        pseudo: str = "none",
        offset: np.ndarray | None = None,
    ) -> None:
        self.router, self.offset, self.n_features = router, offset, n_features
        self.pseudo = PSEUDO_KINDS.index(pseudo)
        self.constant = np.array([machine.constant for machine in machines], np.float32)
        self.features = feature_table(machines, n_features)
        self.all_features = np.array_equal(self.features, np.arange(n_features)[None])
        self.leaves = np.zeros((len(machines), 7), np.int64)
        table: list[np.ndarray] = []
        spans: list[np.ndarray] = []
        coef: list[np.ndarray] = []
        sides = 2 if pseudo == "triangle" else 1
        starts = np.zeros(3, np.int64)
        largest = LANES
        for leaf, machine in enumerate(machines):
            self.leaves[leaf, 4:] = starts
            if machine.landmarks is None:
                continue
            n_landmarks = len(machine.landmarks)
            n_blocks = -(-n_landmarks // LANES)
            n_bounds = -(-machine.spans.shape[1] // LANES)
            n_rows = n_landmarks if len(machine.pairs) else 0
            self.leaves[leaf, :4] = n_blocks, n_landmarks, n_bounds, n_rows
            parts = (
                pack_landmarks(machine, self.features.shape[1]),
                lanes(machine.spans, n_bounds),
                pack_coef(machine, n_blocks, n_bounds, sides, n_rows),
            )
            for store, part in zip((table, spans, coef), parts, strict=True):
                store.append(part.astype(np.float32).ravel())
            starts += [part.size for part in parts]
            largest = max(largest, LANES * (n_blocks + sides * n_bounds))
        self.table, self.spans, self.coef = joined(table), joined(spans), joined(coef)
        self.largest = largest
        self.n_parameters = self.constant.size + sum(
            machine.landmarks.size + machine.spans.size + machine.coef.size
            for machine in machines
            if machine.landmarks is not None and machine.coef is not None
        )

    def flops(self, sizes: np.ndarray) -> float:
        """Mean cost of rows of which leaf i has sizes[i], in units of one product of d numbers.

        An exponential counts as ten multiplications; the cost of the router is not included.
        """
        _, landmarks, _, products = self.leaves[:, :4].T
        bounds = np.diff(np.append(self.leaves[:, 5], self.spans.size)) / np.maximum(landmarks, 1)
        width = self.features.shape[1] + TRANSCENDENTAL + self.constant.shape[1]
        extra = self.constant.shape[1] * landmarks * products / 2
        extra += bounds * (landmarks + TRANSCENDENTAL)
        mean = np.average(landmarks * width + extra, weights=sizes)
        return float(mean / self.n_features)

    @property
    def nbytes(self) -> int:
        arrays = (self.constant, self.features, self.leaves, self.table, self.spans, self.coef)
        offset = 0 if self.offset is None else self.offset.nbytes
        return self.router.nbytes + offset + sum(array.nbytes for array in arrays)

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) array or CSR; (u, m) float64, computed in float32.

        O(u f l) time for l landmarks on f features in a leaf, and the time of the router.

        Raises
        ------
        ValueError
            An entry is not finite (checked here, while the rows are in cache), or the rows have
            a different number of features.
        """
        require_width(X, self.n_features)
        values = np.empty((X.shape[0], self.constant.shape[1]))
        # Loading or unpickling a model may put its arrays at any address.
        self.table, self.coef = aligned(self.table), aligned(self.coef)
        routed = max(LANES, _ROUTED_BYTES // (4 * X.shape[1]))
        n_leaves = len(self.leaves)
        batch = max(routed, _LEAF_ROWS * n_leaves, min(_LEAF_ROWS**2 * n_leaves, _MOST_ROWS))
        labels = np.zeros(min(batch, X.shape[0]), np.int64)
        for start in range(0, len(values), batch):
            rows = float32_rows(X[start : start + batch], self.offset)
            for begin in range(0, len(rows), routed):
                chunk = rows[begin : begin + routed]
                if not _is_finite(chunk):
                    assert_all_finite(X, input_name="X")
                    raise ValueError("Input X contains a value too large for dtype('float32')")
                if len(self.leaves) > 1:
                    self.router.route(chunk, labels[begin : begin + routed])
            self._evaluate(rows, labels[: len(rows)], values[start : start + batch])
        return values

    def assign(self, X: Any) -> np.ndarray:
        """Leaf of each of the rows X : (u, d) array or CSR; (u,) ints."""
        labels = np.zeros(X.shape[0], np.int64)
        if len(self.leaves) > 1:
            self.router.route(float32_rows(X, self.offset), labels)
        return labels

    def compile(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function that evaluates one row : (d,) and returns (m,) float64.

        The row is not checked. The next call overwrites the array that was returned, so each
        thread needs a function of its own.
        """
        entries = np.empty(self.n_features, np.float32)
        row = _read_only(entries[None])
        label, values = np.zeros(1, np.int64), np.empty((1, self.constant.shape[1]))
        result = values[0]
        offset = np.zeros(self.n_features) if self.offset is None else self.offset

        def evaluate(x: np.ndarray) -> np.ndarray:
            np.subtract(x, offset, out=entries, casting="same_kind")
            self.router.route(row, label)
            self._evaluate(row, label, values)
            return result

        return evaluate

    def _evaluate(self, X: np.ndarray, labels: np.ndarray, values: np.ndarray) -> None:
        _evaluate(
            X,
            labels,
            self.features,
            self.all_features,
            self.leaves,
            self.table,
            self.spans,
            self.coef,
            self.constant,
            self.pseudo,
            self.largest,
            values,
        )


def float32_offset(X: Any) -> np.ndarray | None:
    """Offset : (d,) to subtract from rows before they are rounded to float32, or None for none.

    Parameters
    ----------
    X : (n, d) array or CSR
        Training rows. CSR rows get no offset.
    """
    if sp.issparse(X):
        return None
    mean = X.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(X.var(axis=0, dtype=np.float64).mean())
    # Up to 16 standard deviations from the origin cost at most 4 of the 24 bits of float32.
    return mean if np.abs(mean).max() > 16.0 * spread else None


def require_float32_range(X: Any) -> None:
    """Raise a ValueError for rows X : (n, d) whose distances float32 cannot represent.

    Squared differences of features are summed in float32. They underflow or overflow if the largest
    extent of a feature is below 1e-15 or above 1e15. Constant rows are accepted.
    """
    if not fits_float32(X):
        raise ValueError(
            "the largest extent of a feature of X should be between 1e-15 and 1e15, because "
            "squared distances are computed in float32; scale the features"
        )


def fits_float32(X: Any) -> bool:
    """Whether float32 can represent squared distances of rows X : (n, d) array or CSR."""
    low, high = X.max(axis=0), X.min(axis=0)
    if sp.issparse(X):
        low, high = low.toarray(), high.toarray()
    extent = np.abs(high.astype(np.float64) - low).max()
    return bool(extent == 0.0 or _SMALLEST_EXTENT < extent < _LARGEST_EXTENT)


def float32_rows(X: Any, offset: np.ndarray | None) -> np.ndarray:
    """Rows X : (u, d), minus `offset`, as a read-only C-contiguous float32 array.

    Not a copy if X is such an array. Read-only, so that compiled code sees one type of array and
    is compiled once, for memory maps as for arrays.
    """
    if sp.issparse(X):
        X = X.toarray()
    return _read_only(np.ascontiguousarray(X if offset is None else X - offset, np.float32))


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
