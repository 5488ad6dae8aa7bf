"""Bottom-up compression of a kernel matrix into hierarchically semi-separable form.

Chavez, Liu, Ghysels, Li and Rebrova, "Scalable and Memory-Efficient Kernel Ridge Regression" (IPDPS
2020), section III, symmetric: bases of rows and columns are the same. From the leaves up,

    I = points of a leaf, or the skeletons of both children
    J = sample of the columns outside the node
    K(I, J) ~ P [I; E] K(skeleton, J),    skeleton a subset of I

In the paper J are the nearest neighbours of the node's points. In addition we

- keep only the near columns with the largest entries, at most `max_near`;
- draw `n_far` columns uniformly, with weights such that K(I, J) K(I, J)' estimates the product over
  all columns: with near columns alone, tolerances do not bound the error of the far field;
- replace many columns by a count sketch (sums over random groups with random signs), with
  fewer groups if the rank is low;
- draw columns uniformly for a node with too few near columns to determine its rank, for example if
  points are copies of each other. STRUMPACK restarts with twice the neighbours for all nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Self

import numpy as np
from numba import njit

from kbench.approximation.hss.interpolative import Interpolation, interpolate
from kbench.clustering.cluster_tree import ClusterTree
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix

# Number of kernel columns evaluated per block: more take more memory (16 MiB of float32 for 1,000
# rows), fewer make the matrix products slower. Set by hand.
_BLOCK_COLUMNS = 4096
# Number of rows of a node on which the norms of its near columns are estimated: more rows choose
# better columns and cost more kernel values. Set by hand.
_SCORE_ROWS = 16
# A sketch is used if it has at most 1 / 1.25 of the columns, because a wider one saves no time.
# Set by hand.
_MIN_REDUCTION = 1.25
# The Gram matrix is float32 if rel_tol is at least this. Pivots below sqrt(4 eps) = 0.0007 are
# rounding errors in float32. Set by hand.
_MIN_FLOAT32_TOL = 0.03
# The sketch is first summed into a quarter of its columns. The basis of these columns is accepted
# if its rank is at most a sixth of their number; otherwise the full sketch gives the basis. Fewer
# columns save time, and raise the error by less than half (tests/approximation/hss/test_hss.py).
# Set by hand.
_FOLDS = 4
_COLUMNS_PER_RANK = 6
# Columns determine a rank if they are at least 10 more than the rank (STRUMPACK's oversampling).
_OVERSAMPLING = 10


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of a node's basis, and the numbers of columns from which it is computed."""

    # Smallest accepted pivot of a node; both are divided by its level.
    rel_tol: float
    abs_tol: float
    # Bound on the relative Frobenius norm of the residual of a basis; 0 means no bound.
    trace_tol: float
    max_rank: int
    max_near: int | None  # Maximal number of near columns of a node; None means no limit
    n_far: int  # Far columns of a node
    # Number of columns of the sketch; a quarter of it if the rank is low. None: no sketch.
    sketch: int | None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The tolerances among the settings of a matrix."""
        return cls(**{item.name: settings[item.name] for item in fields(cls)})


@dataclass
class Node:
    """Matrices stored at a node of the tree."""

    # (m, m) kernel values of a leaf's points, or (rank_left, rank_right) between the children's
    # skeletons
    block: np.ndarray
    # Basis of the m rows of a leaf, or of the children's skeletons; None for the root.
    basis: Interpolation | None = None
    # (rank,) ints: positions in the order of the tree.
    skeleton: np.ndarray = field(default_factory=lambda: np.empty(0, np.intp))

    @property
    def n_parameters(self) -> int:
        return self.block.size + (0 if self.basis is None else self.basis.coef.size)

    @property
    def nbytes(self) -> int:
        nbytes = self.block.nbytes + self.skeleton.nbytes
        if self.basis is None:
            return nbytes
        return nbytes + self.basis.coef.nbytes + self.basis.order.nbytes


class MemoryLimitError(ValueError):
    """The matrix would exceed the memory limit of the caller."""


def compress(
    kernel: KernelMatrix,
    tree: ClusterTree,
    neighbours: np.ndarray | None,
    tolerances: Tolerances,
    rng: np.random.RandomState,
    *,
    max_bytes: float = np.inf,
) -> list[Node]:
    """Compress the kernel matrix of points in the order of the tree.

    kernel : Kernel matrix of the permuted points
    neighbours : (n, k) ints or None. Positions of the nearest neighbours, in the order of the tree.

    Raises MemoryLimitError.
    """
    n = len(kernel)
    nodes: list[Node] = []
    near: list[np.ndarray] = []
    scratch = _Scratch(n)
    n_bytes = 0
    for i in range(len(tree)):
        left, right = int(tree.left[i]), int(tree.right[i])
        start, stop = int(tree.start[i]), int(tree.stop[i])
        if left < 0:
            rows = np.arange(start, stop)
            candidates = None if neighbours is None else neighbours[start:stop].ravel()
            node = Node(kernel.block(rows, kernel.points(slice(start, stop))))
        else:
            rows = np.concatenate([nodes[left].skeleton, nodes[right].skeleton])
            candidates = np.concatenate([near[left], near[right]])
            near[left] = near[right] = np.empty(0, np.int32)
            columns = kernel.points(nodes[right].skeleton)
            node = Node(kernel.block(nodes[left].skeleton, columns))
        nodes.append(node)
        near.append(np.empty(0, np.int32))
        if i < len(tree) - 1 and len(rows):
            if candidates is not None:
                near[i] = scratch.outside(candidates, start, stop)
            near[i] = _largest_columns(kernel, rows, near[i], tolerances.max_near, rng)
            far = _far_columns(n, start, stop, near[i], tolerances.n_far, rng, scratch)
            columns = np.concatenate([near[i], far])
            n_outside = n - (stop - start)
            weights = np.ones(len(columns), kernel.dtype)
            if len(far):
                weights[len(near[i]) :] = np.sqrt((n_outside - len(near[i])) / len(far))
            level = int(tree.level[i])
            # Nodes are in postorder: the previous one is the right child or a neighbouring leaf, so
            # that its rank is likely to be similar.
            previous = nodes[i - 1].basis if i else None
            expected_rank = 0 if previous is None else previous.rank
            basis_of = partial(_basis, kernel, rows, level, expected_rank, tolerances, rng)
            node.basis = basis_of(columns, weights)
            max_rank = min(len(rows), tolerances.max_rank, n_outside)
            if len(columns) < min(max_rank, node.basis.rank + _OVERSAMPLING + 1):
                extra_columns = _far_columns(n, start, stop, columns, max_rank, rng, scratch)
                columns = np.concatenate([columns, extra_columns])
                weights = np.concatenate([weights, np.ones(len(extra_columns), kernel.dtype)])
                node.basis = basis_of(columns, weights)
            node.skeleton = rows[node.basis.kept]
        elif i < len(tree) - 1:
            node.basis = Interpolation(rows, np.zeros((0, 0), kernel.dtype))
        n_bytes += node.nbytes
        if n_bytes > max_bytes:
            raise MemoryLimitError(
                f"the HSS matrix takes more than {max_bytes / 2**20:.0f} MiB: lower max_rank or "
                "leaf_size, raise the tolerances, or allow more"
            )
    return nodes


def rank_between(
    kernel: KernelMatrix,
    rows: np.ndarray,
    columns: np.ndarray,
    tolerances: Tolerances,
    rng: np.random.RandomState,
) -> int:
    """Rank of a node of the first level with these rows, estimated from these columns only."""
    weights = np.ones(len(columns), kernel.dtype)
    return _basis(kernel, rows, 1, 0, tolerances, rng, columns, weights).rank


def _largest_columns(
    kernel: KernelMatrix,
    rows: np.ndarray,
    columns: np.ndarray,
    limit: int | None,
    rng: np.random.RandomState,
) -> np.ndarray:
    """At most `limit` columns: those with the largest norm on a sample of the rows."""
    if limit is None or len(columns) <= limit:
        return columns
    sample = rows if len(rows) <= _SCORE_ROWS else rng.choice(rows, _SCORE_ROWS, replace=False)
    values = kernel.block(sample, kernel.points(columns))
    squared_norms = np.einsum("ij,ij->j", values, values)
    return columns[np.argpartition(-squared_norms, limit)[:limit]]


def _far_columns(
    n: int,
    start: int,
    stop: int,
    near: np.ndarray,
    n_far: int,
    rng: np.random.RandomState,
    scratch: "_Scratch",
) -> np.ndarray:
    """About `n_far` distinct columns, drawn uniformly outside the node and `near`."""
    n_outside = n - (stop - start)
    if n_far == 0:
        return np.empty(0, np.int32)
    if n_outside <= n_far + len(near):
        positions = np.arange(n_outside)
    else:
        positions = rng.randint(n_outside, size=n_far)
    positions[positions >= start] += stop - start
    return scratch.outside(positions.astype(np.int32), start, stop, near)


def _basis(
    kernel: KernelMatrix,
    rows: np.ndarray,
    level: int,
    expected_rank: int,
    tolerances: Tolerances,
    rng: np.random.RandomState,
    columns: np.ndarray,
    weights: np.ndarray,
) -> Interpolation:
    """Interpolative decomposition of K(rows, columns) diag(weights).

    expected_rank : decides whether the narrow sketch is tried first
    """
    rel_tol, abs_tol = tolerances.rel_tol / level, tolerances.abs_tol / level
    uses_float32 = (
        kernel.dtype == np.float32 and rel_tol >= _MIN_FLOAT32_TOL and not tolerances.trace_tol
    )
    dtype = np.dtype(np.float32 if uses_float32 else np.float64)
    interpolate_gram = partial(
        interpolate,
        rel_tol=rel_tol,
        abs_tol=abs_tol,
        trace_tol=tolerances.trace_tol,
        max_rank=tolerances.max_rank,
    )
    sketch_width = tolerances.sketch
    if sketch_width is None or len(columns) <= _MIN_REDUCTION * sketch_width:
        gram = np.zeros((len(rows), len(rows)), dtype)
        for start in range(0, len(columns), _BLOCK_COLUMNS):
            batch = slice(start, start + _BLOCK_COLUMNS)
            values = kernel.block(rows, kernel.points(columns[batch]))
            if weights[batch].min() != 1.0 or weights[batch].max() != 1.0:
                values *= weights[batch]
            gram += _gram(values, dtype)
        basis = interpolate_gram(gram)
    else:
        sketch = np.zeros((len(rows), sketch_width), kernel.dtype)
        signed_weights = weights * rng.choice(np.array([-1, 1], kernel.dtype), len(columns))
        for start in range(0, len(columns), sketch_width):
            batch = slice(start, start + sketch_width)
            values = kernel.block(rows, kernel.points(columns[batch]))
            _add_scaled(values, signed_weights[batch], sketch)
        narrow = -(-sketch_width // _FOLDS)
        use_narrow = expected_rank * _COLUMNS_PER_RANK <= narrow
        basis = interpolate_gram(_gram(_fold(sketch, narrow) if use_narrow else sketch, dtype))
        if use_narrow and basis.rank * _COLUMNS_PER_RANK > narrow:
            basis = interpolate_gram(_gram(sketch, dtype))
    return Interpolation(basis.order, basis.coef.astype(kernel.dtype, copy=False))


def _gram(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    converted = values.astype(dtype, copy=False)
    return matmul(converted, converted.T)


def _fold(sketch: np.ndarray, width: int) -> np.ndarray:
    """The columns of a sketch summed into `width` columns."""
    sums = sketch[:, :width].copy()
    for start in range(width, sketch.shape[1], width):
        columns = sketch[:, start : start + width]
        sums[:, : columns.shape[1]] += columns
    return sums


@njit(cache=True, nogil=True)
def _add_scaled(values, scale, out):
    """out[:, :b] += values * scale of values : (a, b)"""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] += values[i, j] * scale[j]


class _Scratch:
    """Scratch memory for finding distinct positions outside a node."""

    def __init__(self, n: int) -> None:
        self._mark = np.zeros(n, np.int64)
        self._stamp = 0
        self._buffer = np.empty(n, np.int32)

    def outside(
        self, positions: np.ndarray, start: int, stop: int, without: np.ndarray | None = None
    ) -> np.ndarray:
        """Distinct positions outside start .. stop - 1 and `without`."""
        self._stamp += 1
        if without is not None:
            self._mark[without] = self._stamp
        n_distinct = _distinct(positions, start, stop, self._mark, self._stamp, self._buffer)
        return self._buffer[:n_distinct].copy()


@njit(cache=True, nogil=True)
def _distinct(positions, start, stop, mark, stamp, out):
    """Write the distinct positions outside start .. stop - 1 to `out`; returns their number."""
    n_distinct = 0
    for position in positions:
        if (position < start or position >= stop) and mark[position] != stamp:
            mark[position] = stamp
            out[n_distinct] = position
            n_distinct += 1
    return n_distinct
