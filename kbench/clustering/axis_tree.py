"""Trees of comparisons of single features, and eight rows walked down them at a time.

A level costs one comparison, where a level of a k-means tree costs distances. The trees are
scikit-learn's, grown best first (Breiman, Friedman, Olshen and Stone, "Classification and
Regression Trees", 1984). Rows in lockstep hide one another's waiting for memory: a leaf goes to
itself, so that no row leaves the step before the last one has arrived.
"""

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

_LOCKSTEP = 8
_SAMPLE = 10_000

_ROWS = types.Array(types.float32, 2, "C", readonly=True)
_NODES = types.Array(types.uint32, 2, "C", readonly=True)
_LEAVES = types.Array(types.int64, 1, "C", readonly=True)


def _compile_descend(typing_context, rows, stride, nodes, n_nodes, depth, reached):
    """Take _LOCKSTEP rows down the tree; writes the int64 numbers of their nodes at `reached`.

    rows : address of the first, stride : bytes from row to row, depth : of the tree, at least 1.
    Where the rows are stays in registers, and the processor has the instructions for all of them at
    once.
    """

    def generate(context, builder, signature, arguments):
        first, stride, table, count, depth, target = arguments
        integer, whole, real = ir.IntType(64), ir.IntType(32), ir.FloatType()
        features = builder.inttoptr(table, whole.as_pointer())
        children = builder.gep(features, [builder.mul(count, integer(2))])
        thresholds = builder.bitcast(builder.gep(features, [count]), real.as_pointer())
        starts = [builder.add(first, builder.mul(stride, integer(r))) for r in range(_LOCKSTEP)]
        points = [builder.inttoptr(start, real.as_pointer()) for start in starts]
        states = [cgutils.alloca_once_value(builder, integer(0)) for _ in points]
        levels = cgutils.alloca_once_value(builder, depth)

        def level(point, state):
            node = builder.load(state)
            feature = builder.zext(builder.load(builder.gep(features, [node])), integer)
            entry = builder.load(builder.gep(point, [feature]))
            threshold = builder.load(builder.gep(thresholds, [node]))
            right = builder.zext(builder.fcmp_ordered(">", entry, threshold), integer)
            child = builder.zext(builder.load(builder.gep(children, [node])), integer)
            following = builder.add(child, right)
            builder.store(following, state)
            return builder.xor(following, node)

        body = builder.append_basic_block("levels")
        done = builder.append_basic_block("done")
        builder.branch(body)
        builder.position_at_end(body)
        steps = [level(point, state) for point, state in zip(points, states, strict=True)]
        changed = builder.icmp_unsigned("!=", reduce(builder.or_, steps), integer(0))
        remaining = builder.sub(builder.load(levels), integer(1))
        builder.store(remaining, levels)
        deeper = builder.icmp_unsigned("!=", remaining, integer(0))
        builder.cbranch(builder.and_(changed, deeper), body, done)
        builder.position_at_end(done)
        numbers = builder.inttoptr(target, integer.as_pointer())
        for r, state in enumerate(states):
            builder.store(builder.load(state), builder.gep(numbers, [integer(r)]))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


_descend: Any = intrinsic(_compile_descend)


@njit(types.void(_ROWS, _NODES, types.int64, _LEAVES, types.int64[::1]), nogil=True, cache=True)
def _walk(X, nodes, depth, leaf, labels):
    n, stride = X.shape[0], 4 * X.shape[1]
    reached = np.empty(_LOCKSTEP, np.int64)
    # Rows at the end are walked twice, fewer than a lockstep's one by one.
    step = stride if n >= _LOCKSTEP else 0
    for start in range(0, n, _LOCKSTEP if step else 1):
        begin = min(start, n - _LOCKSTEP) if step else start
        rows_at = X.ctypes.data + stride * begin
        _descend(rows_at, step, nodes.ctypes.data, nodes.shape[1], depth, reached.ctypes.data)
        for r in range(_LOCKSTEP if step else 1):
            labels[begin + r] = leaf[reached[r]]


class AxisTree:
    """A partition of the input space into boxes.

    Parameters
    ----------
    feature : (n_nodes,) ints
    threshold : (n_nodes,) floats
        Rows with x[feature] <= threshold go left.
    left, right : (n_nodes,) ints
        Children; those of a leaf are negative.

    Attributes
    ----------
    n_leaves : int
    """

    def __init__(
        self, feature: np.ndarray, threshold: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> None:
        order, i = [0], 0
        while i < len(order):
            node = order[i]
            if left[node] >= 0:
                order += [left[node], right[node]]
            i += 1
        inner = left[order] >= 0
        self.nodes = np.zeros((3, len(order)), np.uint32)
        self.nodes[0] = np.where(inner, feature[order], 0)
        self.nodes[1] = np.where(inner, _below(threshold[order]), np.inf).astype("f").view("u4")
        # In this order the children of the j-th inner node are nodes 2 j + 1 and 2 j + 2.
        self.nodes[2] = np.where(inner, 2 * np.cumsum(inner) - 1, np.arange(len(order)))
        self.leaf = np.where(inner, -1, np.cumsum(~inner) - 1).astype(np.int64)
        self.n_leaves = int((~inner).sum())
        self.depth = max(1, int(self.comparisons().max()))

    @property
    def nbytes(self) -> int:
        return self.nodes.nbytes + self.leaf.nbytes

    def comparisons(self) -> np.ndarray:
        """Comparisons that a row takes on its way to each leaf; (n_leaves,)."""
        taken = np.zeros(self.nodes.shape[1])
        for node in np.flatnonzero(self.leaf < 0):
            child = int(self.nodes[2, node])
            taken[child : child + 2] = taken[node] + 1
        return taken[self.leaf >= 0]

    def route(self, X: np.ndarray, labels: np.ndarray) -> None:
        """Write the leaves of C-contiguous float32 rows X : (u, d) into labels : (u,) int64."""
        _walk(X, self.nodes, self.depth, self.leaf, labels)

    def assign(self, X: np.ndarray) -> np.ndarray:
        """Leaf of float32 rows X : (u, d); (u,) int64."""
        labels = np.empty(len(X), np.int64)
        self.route(np.ascontiguousarray(X, np.float32), labels)
        return labels


def class_tree(
    X: np.ndarray, y: np.ndarray, n_leaves: int, min_rows: int, weights: np.ndarray
) -> AxisTree:
    """Boxes that tell the classes y apart: the splits of largest gain in entropy.

    Parameters
    ----------
    X : (n, d) float32
    n_leaves : int
        At most.
    min_rows : int
        Of each leaf.
    weights : (n,)
    """
    if n_leaves == 1:
        return single_leaf()
    tree: Any = DecisionTreeClassifier(
        criterion="entropy", max_leaf_nodes=n_leaves, min_samples_leaf=min_rows, random_state=0
    )
    return _tree(tree.fit(X, y, sample_weight=weights))


def target_tree(X: np.ndarray, y: np.ndarray, n_leaves: int, min_rows: int) -> AxisTree:
    """Boxes of like targets y : (n,): the splits that lower their variance most.

    Parameters as in `class_tree`.
    """
    if n_leaves == 1:
        return single_leaf()
    tree: Any = DecisionTreeRegressor(
        max_leaf_nodes=n_leaves, min_samples_leaf=min_rows, random_state=0
    )
    return _tree(tree.fit(X, y))


def variance_tree(
    X: np.ndarray, n_leaves: int, min_rows: int, rng: np.random.RandomState
) -> AxisTree:
    """Boxes of rows that are close: the splits that lower the variance of X most, on a sample.

    Parameters as in `class_tree`.
    """
    if n_leaves == 1:
        return single_leaf()
    rows = rng.permutation(len(X))[:_SAMPLE]
    smallest = max(1, min_rows * len(rows) // len(X))
    tree: Any = DecisionTreeRegressor(
        max_leaf_nodes=n_leaves, min_samples_leaf=smallest, random_state=0
    )
    return _tree(tree.fit(X[rows], X[rows]))


def _tree(fitted: Any) -> AxisTree:
    tree = fitted.tree_
    return AxisTree(tree.feature, tree.threshold, tree.children_left, tree.children_right)


def single_leaf() -> AxisTree:
    """The tree of no comparison."""
    none = np.array([-1])
    return AxisTree(none, np.zeros(1), none, none)


def _below(threshold: np.ndarray) -> np.ndarray:
    """The largest float32 that is no more: it splits float32 rows alike."""
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
