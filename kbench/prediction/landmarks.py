"""Local models on Gaussian landmarks, evaluated leaf by leaf by vector code.

A router sends each row to a leaf. The leaf has landmarks u_j with widths g_j on some of the
features F, columns cb(x) made of their kernel values
(`kbench.approximation.landmarks.pseudo_landmarks`), and m functions

    f(x) = constant + cb(x)'coef,    c_j = exp(-g_j ||x_F - u_j||^2).

This is step 4 of Algorithm 2 of Hsieh, Si and Dhillon, "Fast Prediction for Large-Scale Kernel
Machines" (NIPS 2014), at prediction. Monomials c_i c_j are evaluated as a quadratic form: m^2
multiplications without indexing. Differences of features are squared, because the expanded form
||x||^2 - 2 x'u + ||u||^2 cancels. `landmark_loops` has the compiled code.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from sklearn.utils import assert_all_finite

from kbench.intrinsics.landmark_tiles import LANES
from kbench.prediction.flops import TRANSCENDENTAL, require_width
from kbench.prediction.landmark_layout import (
    LandmarkMachine,
    aligned,
    concatenated,
    feature_table,
    pack_coef,
    pack_landmarks,
    read_only,
    to_lanes,
)
from kbench.prediction.landmark_loops import evaluate_leaves
from kbench.stored import MAX_FEATURES, check_arrays, check_indices, check_whole, require

# Bytes of rows that are checked and routed together, so that they stay in the L2 cache: fewer cost
# more calls (`scripts/bench_fast_prediction.py`).
_ROUTED_BYTES = 1 << 18
# Rows of a batch per leaf, so that the numbers of a leaf are read once for about 32 rows. A model
# with few leaves takes up to 32,768 rows, so that few rows are outside full tiles. Set by hand.
_LEAF_ROWS, _MAX_ROWS = 32, 1 << 15
# Guard: squared differences do not underflow or overflow in float32 if the extent of the features
# is in this range, with a margin for differences of a thousandth of the extent and for sums.
_SMALLEST_EXTENT, _LARGEST_EXTENT = 1e-15, 1e15
# Kinds of columns beside the kernel values; compiled code takes a kind's index in this tuple.
PSEUDO_KINDS = ("none", "monomials", "lower", "upper", "triangle")


class Router(ABC):
    """Sends rows to leaves (`kbench.clustering.kmeans_tree`, `kbench.clustering.axis_tree`)."""

    n_leaves: int

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the arrays that routing reads."""

    @abstractmethod
    def route(self, X: np.ndarray, labels: np.ndarray) -> None:
        """Write the leaves of C-contiguous float32 rows X : (u, d) into labels : (u,) int64."""

    @abstractmethod
    def fits(self, n_features: int) -> bool:
        """Whether rows of `n_features` can be routed."""

    @abstractmethod
    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the tree (`kbench.stored`)."""


# The flags lack "nnan", because zero times a value that is not finite must be NaN.
@njit(fastmath={"reassoc", "nsz"}, nogil=True, cache=True)
def _is_finite(X):
    """Whether all entries of C-contiguous float32 rows are finite."""
    total = np.float32(0.0)
    entries = X.reshape(-1)
    for k in range(entries.shape[0]):
        total += np.float32(0.0) * entries[k]
    return total == np.float32(0.0)


class LocalLandmarks:
    """The models of all leaves, packed for vector code.

    Parameters
    ----------
    machines : The model of each leaf; all read the same number of features.
    n_features : d
    pseudo : {"none", "monomials", "lower", "upper", "triangle"}
        Kind of columns beside the kernel values.
    offset : (d,) array or None. Subtracted from rows before they are rounded to float32.

    Attributes
    ----------
    n_parameters : int. Numbers of the models, without padding.
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
        n_sides = 2 if pseudo == "triangle" else 1
        starts = np.zeros(3, np.int64)
        largest = LANES
        for leaf, machine in enumerate(machines):
            self.leaves[leaf, 4:] = starts
            if machine.landmarks is None:
                continue
            n_landmarks = len(machine.landmarks)
            n_blocks = -(-n_landmarks // LANES)
            n_bound_blocks = -(-machine.spans.shape[1] // LANES)
            n_rows = n_landmarks if len(machine.pairs) else 0
            self.leaves[leaf, :4] = n_blocks, n_landmarks, n_bound_blocks, n_rows
            arrays = (
                pack_landmarks(machine, self.features.shape[1]),
                to_lanes(machine.spans, n_bound_blocks),
                pack_coef(machine, n_blocks, n_bound_blocks, n_sides, n_rows),
            )
            for store, array in zip((table, spans, coef), arrays, strict=True):
                store.append(array.astype(np.float32).ravel())
            starts += [array.size for array in arrays]
            largest = max(largest, LANES * (n_blocks + n_sides * n_bound_blocks))
        self.table, self.spans, self.coef = (
            concatenated(table),
            concatenated(spans),
            concatenated(coef),
        )
        self.largest = largest
        self.n_parameters = self.constant.size + sum(
            machine.landmarks.size + machine.spans.size + machine.coef.size
            for machine in machines
            if machine.landmarks is not None and machine.coef is not None
        )

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        d = check_whole(self, "n_features", 1, MAX_FEATURES)
        pseudo = check_whole(self, "pseudo", 0, len(PSEUDO_KINDS) - 1)
        lengths = check_arrays(
            self,
            in_c_order=True,
            constant="f4 K m",
            leaves="i8 K 7",
            features="i4 F f",
            table="f4 T",
            spans="f4 S",
            coef="f4 C",
            offset=f"?f8 {d}",
        )
        n_leaves, n_outputs, width = lengths["K"], lengths["m"], lengths["f"]
        require(min(n_leaves, n_outputs, width) > 0, "the model has no leaf, output or feature")
        require(lengths["F"] in (1, n_leaves), "features should be one set, or one for each leaf")
        check_indices(self.features, d, "features")
        all_features = np.array_equal(self.features, np.arange(d)[None])
        require(self.all_features is all_features, f"all_features should be {all_features}")
        blocks, landmarks, bounds, products = self.leaves[:, :4].T
        require(np.all((landmarks >= 0) & (landmarks <= lengths["T"])), "landmarks out of range")
        require(np.all(blocks == -(-landmarks // LANES)), "blocks do not fit the landmarks")
        require(np.all((products == 0) | (products == landmarks)), "products out of range")
        require(np.all((bounds >= 0) & (bounds <= lengths["C"])), "bounds out of range")
        require(pseudo >= 2 or not bounds.any(), "bounds without their kind of columns")
        require(not (bounds.any() and products.any()), "bounds and products exclude one another")
        columns = blocks + bounds * (2 if PSEUDO_KINDS[pseudo] == "triangle" else 1)
        sizes = np.stack(
            [
                blocks * (1 + width),
                bounds * landmarks,
                # The comparison below is in floating point, because the product may overflow.
                n_outputs * columns * (1 + products),
            ],
            axis=1,
        )
        require(np.all(sizes.astype(float) < 1 << 40), "sizes out of range")  # guard: sums of int64
        stops = LANES * np.cumsum(sizes, axis=0)
        stored = (lengths["T"], lengths["S"], lengths["C"])
        require(
            np.array_equal(stops[-1], stored),
            "the tables have another size than the leaves state",
        )
        require(np.array_equal(self.leaves[:, 4:], stops - LANES * sizes), "offsets out of order")
        largest = LANES * max(1, int(columns.max()))
        check_whole(self, "largest", largest, largest)
        router = self.router
        require(isinstance(router, Router), "router is of another class")
        require(router.n_leaves == n_leaves, f"the router has {router.n_leaves} leaves")
        require(router.fits(d), f"the router is for rows of another width than {d}")

    def flops(self, sizes: np.ndarray) -> float:
        """Mean cost of a row if leaf i has sizes[i] rows, in units of one product of d numbers.

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

        Raises ValueError: an entry is not finite (checked here, while the rows are in cache), or
        the rows have a different number of features.
        """
        require_width(X, self.n_features)
        outputs = np.empty((X.shape[0], self.constant.shape[1]))
        # Loading or unpickling a model may put its arrays at any address.
        self.table, self.coef = aligned(self.table), aligned(self.coef)
        routed_rows = max(LANES, _ROUTED_BYTES // (4 * X.shape[1]))
        n_leaves = len(self.leaves)
        batch = max(routed_rows, _LEAF_ROWS * n_leaves, min(_LEAF_ROWS**2 * n_leaves, _MAX_ROWS))
        labels = np.zeros(min(batch, X.shape[0]), np.int64)
        for start in range(0, len(outputs), batch):
            rows = float32_rows(X[start : start + batch], self.offset)
            for begin in range(0, len(rows), routed_rows):
                chunk = rows[begin : begin + routed_rows]
                if not _is_finite(chunk):
                    assert_all_finite(X, input_name="X")
                    raise ValueError("Input X contains a value too large for dtype('float32')")
                if len(self.leaves) > 1:
                    self.router.route(chunk, labels[begin : begin + routed_rows])
            self._evaluate(rows, labels[: len(rows)], outputs[start : start + batch])
        return outputs

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
        row = read_only(entries[None])
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
        evaluate_leaves(
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
    """Offset : (d,) to subtract from rows before they are rounded to float32, or None.

    X : (n, d) array or CSR. Training rows. CSR rows get no offset.
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
    low, high = X.min(axis=0), X.max(axis=0)
    if sp.issparse(X):
        low, high = low.toarray(), high.toarray()
    extent = np.abs(high.astype(np.float64) - low).max()
    return bool(extent == 0.0 or _SMALLEST_EXTENT < extent < _LARGEST_EXTENT)


def float32_rows(X: Any, offset: np.ndarray | None) -> np.ndarray:
    """Rows X : (u, d), minus `offset`, as a read-only C-contiguous float32 array.

    If X is such an array, it is not copied. The result is read-only, so that compiled code sees one
    type of array and is compiled once for memory maps and arrays.

    Raises ValueError: a value leaves the range of float32.
    """
    try:
        with np.errstate(over="raise"):
            if sp.issparse(X):
                X = (X if offset is not None else X.astype(np.float32)).toarray()
            rows = np.ascontiguousarray(X if offset is None else X - offset, np.float32)
    except FloatingPointError:
        raise ValueError("Input X contains a value too large for dtype('float32')") from None
    return read_only(rows)
