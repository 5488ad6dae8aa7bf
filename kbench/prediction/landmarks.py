"""Local machines on Gaussian landmarks, evaluated a row at a time by vector code.

A router sends each row to a leaf; the leaf has landmarks u_j with widths g_j on some of the
features, columns that follow from their kernel values (`kbench.approximation.pseudo_landmarks`),
and m functions

    f(x) = constant + cb(x)'coef,    c_j = exp(-g_j ||x_F - u_j||^2).

Monomials c_i c_j are evaluated as a quadratic form: m^2 multiplications, no gathering.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numba import njit, types

from kbench.prediction.flops import TRANSCENDENTAL
from kbench.prediction.packing import (
    LandmarkMachine,
    feature_table,
    joined,
    lanes,
    pack_coef,
    pack_landmarks,
)
from kbench.prediction.products import Products
from kbench.prediction.vectors import (
    LANES,
    form_block,
    kernel_block,
    lower_block,
    upper_block,
)

# The rows of a batch stay in the L2 cache between their two passes.
_BATCH_BYTES = 1 << 19
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
def _evaluate(X, labels, features, leaves, table, spans, coef, constant, pseudo, largest, values):
    """values : (u, m) of rows X : (u, d) in the leaves `labels`.

    leaves : (K, 7): blocks of landmarks, landmarks, blocks of bounds, rows of the quadratic form,
    and where the leaf's part of table, spans and coef begins. largest : columns of a leaf.
    """
    n_features, n_outputs = features.shape[1], constant.shape[1]
    exponents, columns = np.empty(largest, np.float32), np.empty(largest, np.float32)
    exponent_at, column_at = exponents.ctypes.data, columns.ctypes.data
    stride = (n_features + 1) * LANES
    for i in range(X.shape[0]):
        leaf = labels[i]
        n_blocks, n_landmarks, n_bounds = leaves[leaf, 0], leaves[leaf, 1], leaves[leaf, 2]
        n_rows = leaves[leaf, 3]
        row_at = X.ctypes.data + 4 * i * X.shape[1]
        features_at = features.ctypes.data
        if features.shape[0] > 1:
            features_at += 4 * leaf * n_features
        table_at = table.ctypes.data + 4 * leaves[leaf, 4]
        for b in range(n_blocks):
            kernel_block(
                row_at,
                features_at,
                table_at + 4 * b * stride,
                n_features,
                exponent_at + 4 * LANES * b,
                column_at + 4 * LANES * b,
            )
        total = n_blocks
        if pseudo > 1 and n_bounds > 0:
            spans_at = spans.ctypes.data + 4 * leaves[leaf, 5]
            for j in range(n_landmarks):
                exponents[j] = np.sqrt(-exponents[j])
            for b in range(n_bounds):
                span_at = spans_at + 4 * b * n_landmarks * LANES
                if pseudo != 3:
                    lower_block(exponent_at, span_at, n_landmarks, column_at + 4 * LANES * total)
                    total += 1
                if pseudo != 2:
                    upper_block(exponent_at, span_at, n_landmarks, column_at + 4 * LANES * total)
                    total += 1
        coef_at = coef.ctypes.data + 4 * leaves[leaf, 6]
        for o in range(n_outputs):
            value = constant[leaf, o]
            for b in range(total):
                value += form_block(column_at, column_at + 4 * LANES * b, coef_at, n_rows)
                coef_at += 4 * LANES * (n_rows + 1)
            values[i, o] = value


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
        self.products: Products | None = None
        if Products.serves(machines, n_features, pseudo):
            self.products = Products(machines[0])
            self.table = self.coef = joined([])
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
        offset += 0 if self.products is None else self.products.nbytes
        return self.router.nbytes + offset + sum(array.nbytes for array in arrays)

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) array or CSR; (u, m) float64, computed in float32.

        O(u f l) time and the router's, for l landmarks on f features a leaf.
        """
        values = np.empty((X.shape[0], self.constant.shape[1]))
        batch = max(LANES, _BATCH_BYTES // (4 * max(1, X.shape[1])))
        labels = np.empty(min(batch, X.shape[0]), np.int64)
        for start in range(0, len(values), batch):
            part = values[start : start + batch]
            self._evaluate(
                float32_rows(X[start : start + batch], self.offset), labels[: len(part)], part
            )
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
            self._evaluate(row, label, values)
            return result

        return evaluate

    def _evaluate(self, X: np.ndarray, labels: np.ndarray, values: np.ndarray) -> None:
        if self.products is not None:
            self.products(X, self.constant[0], values)
            return
        self.router.route(X, labels)
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
