"""Local machines on Gaussian landmarks, evaluated leaf by leaf by vector code.

A router sends each row to a leaf; the leaf has landmarks u_j with widths g_j on some of the
features, columns that follow from their kernel values (`kbench.approximation.pseudo_landmarks`),
and m functions

    f(x) = constant + cb(x)'coef,    c_j = exp(-g_j ||x_F - u_j||^2).

Monomials c_i c_j are evaluated as a quadratic form: m^2 multiplications, no gathering. Rows are
put in the order of their leaves, so that several of them share what is read of a leaf: more bytes
than a row has, by far. Features are subtracted, not multiplied out, so nothing cancels. A vector is
sixteen landmarks at a row, or, where a leaf has so many rows and looks at all features, sixteen
rows at a landmark, which spares sums over the entries of vectors; sums are the same to the bit.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numba import njit, types
from sklearn.utils import assert_all_finite

from kbench.prediction.flops import TRANSCENDENTAL
from kbench.prediction.packing import (
    LandmarkMachine,
    aligned,
    feature_table,
    joined,
    lanes,
    pack_coef,
    pack_landmarks,
)
from kbench.prediction.vectors import (
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

# Rows that are checked and routed stay in the L2 cache; leaves get so many rows on average, where
# there are that many, that their numbers are read once for several, and few leaves so many that
# hardly any are left over from tiles.
_PART_BYTES, _LEAF_ROWS, _MANY_ROWS = 1 << 18, 32, 1 << 15
# Those of a group, and their columns, in the L1 cache.
_GROUP_ROWS, _GROUP_BYTES = 60, 1 << 14
# Sixteen rows at a landmark: up to so many features, and for no fewer rows.
_MOST_FEATURES, _FEWEST_ROWS = 64, 6
_PSEUDO = ("none", "monomials", "lower", "upper", "triangle")


class Router(Protocol):
    """What sends rows to leaves."""

    n_leaves: int

    @property
    def nbytes(self) -> int: ...

    def route(self, X: np.ndarray, labels: np.ndarray) -> None:
        """Write the leaves of C-contiguous float32 rows X : (u, d) into labels : (u,) int64."""


_ROWS = types.Array(types.float32, 2, "C", readonly=True)
_FLOATS = types.Array(types.float32, 1, "C", readonly=True)
_LEAVES = types.Array(types.int64, 2, "C", readonly=True)


@njit(inline="always")
def _exponents(rows_at, n, features_at, table_at, n_features, n_blocks, at, slot):
    """Exponents of a leaf's landmarks at n of its rows; behind their addresses stand others."""
    block = 4 * (n_features + 1) * LANES
    r = 0
    while n - r > 2:
        b = 0
        while n_blocks - b >= BLOCKS:
            own_at, into_at = table_at + b * block, at + 4 * (slot * r + LANES * b)
            rows_by_blocks(rows_at + 8 * r, features_at, own_at, n_features, into_at, slot)
            b += BLOCKS
        if n_blocks > b:
            own_at, into_at = table_at + b * block, at + 4 * (slot * r + LANES * b)
            rows_by_1(rows_at + 8 * r, features_at, own_at, n_features, into_at, slot)
        r += ROWS
    while r < n:
        b = 0
        while n_blocks - b >= BLOCKS:
            own_at, into_at = table_at + b * block, at + 4 * (slot * r + LANES * b)
            row_by_blocks(rows_at + 8 * r, features_at, own_at, n_features, into_at, slot)
            b += BLOCKS
        if n_blocks > b:
            own_at, into_at = table_at + b * block, at + 4 * (slot * r + LANES * b)
            row_by_1(rows_at + 8 * r, features_at, own_at, n_features, into_at, slot)
        r += 1


@njit(inline="always")
def _sums_across(
    rows_at, n, n_features, table_at, coef_at, n_blocks, points_at, values_at, sums_at, n_outputs
):
    """Sums of a leaf at the first of n rows, sixteen at a time by output; how many rows they are.

    Behind the addresses of the rows stand others, up to a multiple of sixteen.
    """
    slot, width = LANES * LANES * n_blocks, LANES * n_features
    block = 4 * (n_features + 1) * LANES
    r = 0
    while n - r >= _FEWEST_ROWS:
        n_vectors = VECTORS if n - r > LANES * (VECTORS - 1) else 1
        for v in range(n_vectors):
            transposed(rows_at + 8 * (r + LANES * v), n_features, points_at + 4 * width * v)
        for b in range(n_blocks):
            own_at, into_at = table_at + b * block, values_at + 4 * LANES * LANES * b
            if n_vectors > 1:
                kernels_of_vectors(points_at, own_at, n_features, into_at, slot)
            else:
                kernels_of_1(points_at, own_at, n_features, into_at, slot)
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
    """Columns of the triangle inequality behind the kernel values; their number with these."""
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


@njit(
    types.boolean(_ROWS),
    # Not "nnan": a product of zero and what is not finite is not zero.
    fastmath={"reassoc", "nsz"},
    nogil=True,
    cache=True,
)
def _is_finite(X):
    total = np.float32(0.0)
    entries = X.reshape(-1)
    for k in range(entries.shape[0]):
        total += np.float32(0.0) * entries[k]
    return total == np.float32(0.0)


@njit(inline="always")
def _by_leaf(labels, n_leaves):
    """Rows in the order of their leaves, and where those of each leaf end."""
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


@njit(
    types.void(
        _ROWS,
        types.int64[::1],
        types.Array(types.int32, 2, "C", readonly=True),
        _LEAVES,
        _FLOATS,
        _FLOATS,
        _FLOATS,
        _ROWS,
        types.int64,
        types.int64,
        types.float64[:, ::1],
    ),
    nogil=True,
    cache=True,
    error_model="numpy",
)
def _evaluate(X, labels, features, leaves, table, spans, coef, constant, pseudo, slot, values):
    """values : (u, m) of rows X : (u, d) in the leaves `labels`.

    leaves : (K, 7): blocks of landmarks, landmarks, blocks of bounds, rows of the quadratic form,
    and where the leaf's part of table, spans and coef begins. slot : most columns of a leaf.
    """
    n_features, n_outputs = features.shape[1], constant.shape[1]
    order, ends = _by_leaf(labels, leaves.shape[0])
    across = pseudo == 0 and features.shape[0] == 1 and LANES <= n_features <= _MOST_FEATURES
    if across:
        group = LANES * VECTORS
    else:
        group = max(1, min(_GROUP_ROWS, _GROUP_BYTES // (4 * X.shape[1])) // ROWS) * ROWS
    # A tile takes rows, and writes, beyond the end.
    addresses = np.empty(group + LANES, np.int64)
    size = (group + LANES) * slot
    scratch = np.empty(2 * size + (group * n_features if across else 0) + LANES, np.float32)
    # No vector crosses a line of the cache.
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
            # Step by step over a group of rows: within a step they do not wait for one another.
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
                    own = sums[v, o]
                    for r in range(LANES * v, min(first, LANES * (v + 1))):
                        total = np.float64(own[r - LANES * v])
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
                own_at = coef_at
                for o in range(n_outputs):
                    values[i, o] = constant[leaf, o]
                    if n_rows == 0:
                        values[i, o] += weighted_sum(column_at, own_at, total)
                        own_at += 4 * LANES * total
                        continue
                    for b in range(total):
                        block_at = column_at + 4 * LANES * b
                        values[i, o] += form_block(column_at, block_at, own_at, n_rows)
                        own_at += 4 * LANES * (n_rows + 1)
        begin = ends[leaf]


class LocalLandmarks:
    """Machines by leaf, packed.

    Parameters
    ----------
    router : Router
    machines : list of LandmarkMachine, by leaf
        All with features, and equally many, or all without.
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
        self.pseudo = _PSEUDO.index(pseudo)
        self.constant = np.array([machine.constant for machine in machines], np.float32)
        self.features = feature_table(machines, n_features)
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

    def flops(self, labels: np.ndarray) -> float:
        """Mean cost of the leaves `labels` : (u,), in units of one product of d numbers.

        An exponential counts as ten multiplications; the router's part is not in it.
        """
        _, landmarks, _, products = self.leaves[:, :4].T
        bounds = np.diff(np.append(self.leaves[:, 5], self.spans.size)) / np.maximum(landmarks, 1)
        width = self.features.shape[1] + TRANSCENDENTAL + self.constant.shape[1]
        extra = self.constant.shape[1] * landmarks * products / 2
        extra += bounds * (landmarks + TRANSCENDENTAL)
        return float((landmarks * width + extra)[labels].mean() / self.n_features)

    @property
    def nbytes(self) -> int:
        arrays = (self.constant, self.features, self.leaves, self.table, self.spans, self.coef)
        offset = 0 if self.offset is None else self.offset.nbytes
        return self.router.nbytes + offset + sum(array.nbytes for array in arrays)

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) array or CSR; (u, m) float64, computed in float32.

        O(u f l) time and the router's, for l landmarks on f features a leaf.

        Raises
        ------
        ValueError
            An entry is not finite: seen here, where it costs no further pass over the rows.
        """
        values = np.empty((X.shape[0], self.constant.shape[1]))
        # Stored models, and pickled ones, come back at any address.
        self.table, self.coef = aligned(self.table), aligned(self.coef)
        part = max(LANES, _PART_BYTES // (4 * max(1, X.shape[1])))
        n_leaves = len(self.leaves)
        batch = max(part, _LEAF_ROWS * n_leaves, min(_LEAF_ROWS**2 * n_leaves, _MANY_ROWS))
        labels = np.zeros(min(batch, X.shape[0]), np.int64)
        for start in range(0, len(values), batch):
            rows = float32_rows(X[start : start + batch], self.offset)
            for begin in range(0, len(rows), part):
                own = rows[begin : begin + part]
                if not _is_finite(own):
                    assert_all_finite(X, input_name="X")
                    raise ValueError("Input X contains a value too large for dtype('float32')")
                if len(self.leaves) > 1:
                    self.router.route(own, labels[begin : begin + part])
            self._evaluate(rows, labels[: len(rows)], values[start : start + batch])
        return values

    def compile(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function of one row : (d,) that does nothing but evaluate it; (m,) float64.

        The row is not checked. What is returned is overwritten by the next call, so each thread
        needs a function of its own.
        """
        row = np.empty((1, self.n_features), np.float32)
        label, values = np.empty(1, np.int64), np.empty((1, self.constant.shape[1]))
        entries, result = row[0], values[0]
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
    """What to subtract from rows before they are rounded to float32; None where that is nothing.

    Parameters
    ----------
    X : (n, d) array or CSR
        Training rows. Sparse ones are kept as they are.
    """
    if sp.issparse(X):
        return None
    mean = X.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(X.var(axis=0, dtype=np.float64).mean())
    # float32 has 24 bits: four of them may go to the distance from the origin.
    return mean if np.abs(mean).max() > 16.0 * spread else None


def float32_rows(X: Any, offset: np.ndarray | None) -> np.ndarray:
    """Rows X : (u, d), minus `offset`, as a C-contiguous float32 array; X itself if it is one."""
    if sp.issparse(X):
        X = X.toarray()
    return np.ascontiguousarray(X if offset is None else X - offset, np.float32)
