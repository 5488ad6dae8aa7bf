"""Products with a kernel matrix in HSS form, its rows, and its values at new rows.

Chavez, Liu, Ghysels, Li and Rebrova, "Scalable and Memory-Efficient Kernel Ridge Regression" (IPDPS
2020), section II. A product goes up the tree to compute the moments U' v of every node, and down to
add U B (moments of the sibling). A new row needs kernel values with the points of its leaf and with
the skeletons of the siblings on its way from the root to the leaf.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from kbench.approximation.hss.compression import Node
from kbench.clustering.cluster_tree import ClusterTree
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.prediction import KernelExpansion, LocalMachines, group_rows, prediction_dtype
from kbench.validated import validate_data


class HSSProducts:
    """Products, rows and values of a compressed matrix; `HSSMatrix` is the subclass that fits it.

    Attributes
    ----------
    shape : (n, n)
    dtype : {"float32", "float64"}
    ordered_kernel_ : Exact kernel matrix of the points in the order of the tree
    """

    shape: tuple[int, int]
    dtype: str
    tree_: ClusterTree
    nodes_: list[Node]
    ordered_kernel_: KernelMatrix

    def matvec(self, x: np.ndarray) -> np.ndarray:
        """K~ x for x : (n,) or (n, 1); the same shape."""
        return self.matmat(np.reshape(x, (-1, 1))).reshape(x.shape)

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self.matmat(V) if V.ndim == 2 else self.matvec(V)

    def matmat(self, V: np.ndarray) -> np.ndarray:
        """K~ V for V : (n, m), in the precision of the matrix; (n, m). O(n (r + leaf_size) m)."""
        tree, nodes = self.tree_, self.nodes_
        V = np.asarray(V, self.dtype)[tree.permutation]
        moments = self._moments(V)
        out = np.empty(V.shape, V.dtype)
        stack = [(len(tree) - 1, np.zeros((0, V.shape[1]), V.dtype))]
        while stack:
            i, far_field = stack.pop()
            node = nodes[i]
            if tree.left[i] < 0:
                rows = slice(tree.start[i], tree.stop[i])
                out[rows] = matmul(node.block, V[rows])
                if node.basis is not None:
                    out[rows] += _from_skeleton(node, far_field)
                continue
            left, right = int(tree.left[i]), int(tree.right[i])
            children = matmul(node.block, moments[right]), matmul(node.block.T, moments[left])
            if node.basis is not None:
                values, r = _from_skeleton(node, far_field), len(children[0])
                children = children[0] + values[:r], children[1] + values[r:]
            stack += zip((left, right), children, strict=True)
        result = np.empty_like(out)
        result[tree.permutation] = out
        return result

    rmatvec, rmatmat = matvec, matmat

    def _moments(self, V: np.ndarray) -> list[np.ndarray]:
        """U' V of each node except the root, for V : (n, m) in the order of the tree."""
        tree, moments = self.tree_, list[np.ndarray]()
        for i, node in enumerate(self.nodes_):
            if node.basis is None:
                break
            if tree.left[i] < 0:
                rows = V[tree.start[i] : tree.stop[i]]
            else:
                rows = np.concatenate([moments[tree.left[i]], moments[tree.right[i]]])
            moments.append(
                rows[node.basis.kept] + matmul(node.basis.coef.T, rows[node.basis.others])
            )
        return moments

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Rows of K~; (a, n). O(a n (r + leaf_size))."""
        unit_columns = np.zeros((self.shape[0], len(indices)), self.dtype)
        unit_columns[indices, np.arange(len(indices))] = 1.0
        return self.matmat(unit_columns).T

    def toarray(self) -> np.ndarray:
        """K~ : (n, n), assembled from the bases; for tests and small n."""
        tree, dense = self.tree_, np.zeros(self.shape, self.dtype)
        bases: list[np.ndarray] = []
        for i, node in enumerate(self.nodes_):
            left, right = int(tree.left[i]), int(tree.right[i])
            rows = slice(tree.start[i], tree.stop[i])
            if left < 0:
                dense[rows, rows] = node.block
                basis = np.eye(tree.stop[i] - tree.start[i], dtype=self.dtype)
            else:
                U, V = bases[left], bases[right]
                middle = tree.stop[left]
                dense[rows.start : middle, middle : rows.stop] = matmul(matmul(U, node.block), V.T)
                dense[middle : rows.stop, rows.start : middle] = matmul(
                    matmul(V, node.block.T), U.T
                )
                basis = np.zeros((len(U) + len(V), U.shape[1] + V.shape[1]), self.dtype)
                basis[: len(U), : U.shape[1]], basis[len(U) :, U.shape[1] :] = U, V
            if node.basis is not None:
                basis = matmul(
                    basis, _from_skeleton(node, np.eye(node.basis.rank, dtype=self.dtype))
                )
            bases.append(basis)
        result = np.empty_like(dense)
        result[np.ix_(tree.permutation, tree.permutation)] = dense
        return result

    def cross(self, X: Any) -> np.ndarray:
        """Approximate kernel values of any rows with all n points.

        The kernel values with the points of a row's leaf are exact. The values with the points of a
        sibling node V on the way to the leaf are k(x, skeleton of V) U', with exact values at the
        skeleton and the basis U of V.

        Parameters
        ----------
        X : (u, d) array or CSR

        Returns
        -------
        (u, n), in the precision of the matrix, columns in the order of the data

        Raises
        ------
        ValueError
            With tree="natural", which cannot place new rows.

        Notes
        -----
        O(u n r) time; `machine` evaluates products with fixed coefficients without the n columns.
        """
        X = validate_data(self, X, reset=False)
        tree, function = self.tree_, self.ordered_kernel_.kernel
        siblings = dict(self._leaves())
        out = np.empty((X.shape[0], self.shape[1]), self.dtype)
        for leaf, rows in group_rows(tree.assign(X)):
            points = function.prepare(X[rows], self.ordered_kernel_.dtype)
            values = np.empty((self.shape[0], len(rows)), self.dtype)
            nodes = [(leaf, np.arange(tree.start[leaf], tree.stop[leaf]))]
            nodes += [(i, self.nodes_[i].skeleton) for i in siblings[leaf]]
            for i, positions in nodes:
                block = np.empty((len(rows), len(positions)), self.dtype)
                if len(positions):
                    function.evaluate(points, self.ordered_kernel_.points(positions), block)
                if i == leaf:
                    values[tree.start[i] : tree.stop[i]] = block.T
                else:
                    self._expand(i, block.T, values)
            # `values` has the columns of K~ in the order of the tree.
            out[np.ix_(rows, tree.permutation)] = values.T
        return out

    def _expand(self, top: int, skeleton_values: np.ndarray, out: np.ndarray) -> None:
        """out[points of node `top`] = U V: V = skeleton_values : (rank, m), U its nested basis."""
        tree, stack = self.tree_, [(top, skeleton_values)]
        while stack:
            i, skeleton_values = stack.pop()
            values = _from_skeleton(self.nodes_[i], skeleton_values)
            left, right = int(tree.left[i]), int(tree.right[i])
            if left < 0:
                out[tree.start[i] : tree.stop[i]] = values
            else:
                r = len(self.nodes_[left].skeleton)
                stack += [(left, values[:r]), (right, values[r:])]

    def _leaves(self) -> Iterator[tuple[int, list[int]]]:
        """Yield each leaf with the siblings of the nodes on the way from the root to the leaf."""
        tree = self.tree_
        stack: list[tuple[int, list[int]]] = [(len(tree) - 1, [])]
        while stack:
            i, siblings = stack.pop()
            left, right = int(tree.left[i]), int(tree.right[i])
            if left < 0:
                yield i, siblings
            else:
                stack += [(left, [*siblings, right]), (right, [*siblings, left])]

    def machine(self, coef: np.ndarray) -> "TreeExpansion":
        """The function cross(X) @ coef, an approximation of sum_j coef_j k(x, x_j).

        A row takes O(leaf_size + r depth) kernel values, with the points of its leaf and with the
        skeletons of the siblings on the way to the leaf.

        Parameters
        ----------
        coef : (n, m)
            In the order of the data.

        Returns
        -------
        callable
            X : (u, d) -> (u, m) float64
        """
        tree, kernel = self.tree_, self.ordered_kernel_
        coef = np.asarray(coef, np.float64)[tree.permutation]
        moments = self._moments(coef)
        dtype = prediction_dtype(kernel, coef)
        machines: dict[int, KernelExpansion] = {}
        for leaf, siblings in self._leaves():
            points = np.arange(tree.start[leaf], tree.stop[leaf])
            positions = np.concatenate([points, *(self.nodes_[i].skeleton for i in siblings)])
            values = np.concatenate([coef[points], *(moments[i] for i in siblings)])
            machines[leaf] = KernelExpansion(kernel, positions, values, dtype)
        return TreeExpansion(tree, machines, coef.shape[1])


class TreeExpansion(LocalMachines):
    """A function with one kernel expansion for each leaf of a tree.

    Attributes
    ----------
    nbytes : int. Bytes of the tree and of all expansions.
    n_centres : int. Number of centres of all leaves together.
    """

    def __init__(
        self, tree: ClusterTree, machines: dict[int, KernelExpansion], n_outputs: int
    ) -> None:
        # Routing a row to its leaf costs one scalar product for each level of the tree.
        depth = float(tree.level[tree.leaves].mean())
        super().__init__(tree.assign, machines, n_outputs, depth)
        self.nbytes = tree.nbytes + sum(machine.nbytes for machine in machines.values())
        self.n_centres = sum(len(machine.coef) for machine in machines.values())


def _from_skeleton(node: Node, skeleton_values: np.ndarray) -> np.ndarray:
    """P [I; E] V : (m, q) for V = skeleton_values : (rank, q), of a node other than the root."""
    assert node.basis is not None
    values = np.empty((len(node.basis.order), skeleton_values.shape[1]), skeleton_values.dtype)
    values[node.basis.kept] = skeleton_values
    values[node.basis.others] = matmul(node.basis.coef, skeleton_values)
    return values
