"""Symmetric ULV factorisation of an HSS matrix plus a multiple of the identity.

Chandrasekaran, Gu and Pals, "A Fast ULV Decomposition Solver for Hierarchically Semiseparable
Representations" (SIMAX 28, 2006), for symmetric positive definite matrices and interpolative bases:
subtracting E times the skeleton rows from the other rows decouples the other rows from all points
outside the node, so that a Cholesky factorisation eliminates them. With the skeleton rows s and the
other rows r of the matrix D of a node,

    Y = D_rs - E D_ss,    X = D_rr - E D_sr - D_rs E' + E D_ss E' = L L',    W = L^-1 Y,

the node passes D_ss - W'W on to its parent, whose matrix is [[D_left, B], [B', D_right]].
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack
from scipy.sparse.linalg import LinearOperator

from kbench.approximation.hss.compression import Node
from kbench.clustering.cluster_tree import ClusterTree
from kbench.intrinsics.products import matmul


class _Routines(NamedTuple):
    """BLAS and LAPACK in one precision."""

    trsm: Any
    trsv: Any
    syrk: Any
    syr2k: Any
    potrf: Any


_ROUTINES = {
    np.dtype(np.float32): _Routines(blas.strsm, blas.strsv, blas.ssyrk, blas.ssyr2k, lapack.spotrf),
    np.dtype(np.float64): _Routines(blas.dtrsm, blas.dtrsv, blas.dsyrk, blas.dsyr2k, lapack.dpotrf),
}


class IndefiniteError(np.linalg.LinAlgError):
    """The shifted matrix is not positive definite."""


@dataclass(frozen=True)
class _Eliminated:
    """Factors of a node: lower L : (m - r, m - r) in Fortran order, coupling W : (m - r, r)."""

    lower: np.ndarray
    coupling: np.ndarray


class ULVFactor:
    """Factors of K~ + shift I.

    Parameters
    ----------
    dtype : float32 or float64. Precision of the factors.

    Attributes
    ----------
    nbytes : int
    logdet : float. Logarithm of the determinant.

    Raises
    ------
    IndefiniteError

    Notes
    -----
    O(n r^2 + n leaf_size^2) time, O(n (r + leaf_size)) memory for ranks r; a solution costs
    O(n (r + leaf_size)).
    """

    def __init__(self, tree: ClusterTree, nodes: list[Node], shift: float, dtype: Any) -> None:
        self._tree, self._nodes = tree, nodes
        self.shift = shift
        self.dtype = np.dtype(dtype)
        self._eliminated: list[_Eliminated] = []
        self.logdet = 0.0
        self._factorise()

    @property
    def nbytes(self) -> int:
        n_bytes = sum(rows.lower.nbytes + rows.coupling.nbytes for rows in self._eliminated)
        return n_bytes + self._root.nbytes

    def _factorise(self) -> None:
        tree, remaining = self._tree, list[np.ndarray]()
        for i, node in enumerate(self._nodes):
            if tree.left[i] < 0:
                matrix = np.array(node.block, self.dtype, order="F")
                matrix[np.diag_indices_from(matrix)] += self.dtype.type(self.shift)
            else:
                right, left = remaining.pop(), remaining.pop()
                r, m = len(left), len(left) + len(right)
                matrix = np.empty((m, m), self.dtype, order="F")
                matrix[:r, :r], matrix[r:, r:] = left, right
                matrix[:r, r:], matrix[r:, :r] = node.block, node.block.T
            if node.basis is None:
                self._root = self._cholesky(matrix)
            else:
                remaining.append(self._eliminate(matrix, node))

    def _eliminate(self, matrix: np.ndarray, node: Node) -> np.ndarray:
        """Eliminate the rows that the basis of a node expresses by its skeleton rows.

        Returns the Schur complement of the skeleton rows, which the parent gets.
        """
        basis = node.basis
        assert basis is not None
        skeleton, others = basis.kept, basis.others
        schur = np.asfortranarray(matrix[np.ix_(skeleton, skeleton)])
        if len(others) == 0:
            self._eliminated.append(_Eliminated(*np.zeros((2, 0, len(skeleton)), self.dtype)))
            return schur
        inner = np.asfortranarray(matrix[np.ix_(others, others)])
        coupling = np.asfortranarray(matrix[np.ix_(others, skeleton)])
        if len(skeleton):
            coef = np.asfortranarray(basis.coef, self.dtype)
            product = np.asfortranarray(matmul(coef, schur))
            half = np.asfortranarray(coupling - self.dtype.type(0.5) * product)
            # X = D_rr - half E' - E half'
            inner = _ROUTINES[self.dtype].syr2k(
                -1.0, half, coef, beta=1.0, c=inner, lower=1, overwrite_c=1
            )
            coupling -= product
        lower = self._cholesky(inner)
        if len(skeleton):
            coupling = _ROUTINES[self.dtype].trsm(1.0, lower, coupling, lower=1, overwrite_b=1)
            schur = _ROUTINES[self.dtype].syrk(
                -1.0, coupling, beta=1.0, c=schur, trans=1, lower=1, overwrite_c=1
            )
            schur = np.tril(schur) + np.tril(schur, -1).T
        self._eliminated.append(_Eliminated(lower, coupling))
        return schur

    def _cholesky(self, matrix: np.ndarray) -> np.ndarray:
        if len(matrix) == 0:
            return matrix
        lower, info = _ROUTINES[self.dtype].potrf(matrix, lower=1, overwrite_a=1)
        if info:
            raise IndefiniteError(f"K~ + {self.shift:g} I is not positive definite")
        self.logdet += 2.0 * float(np.log(lower.diagonal().astype(np.float64)).sum())
        return lower

    def solve(self, B: np.ndarray) -> np.ndarray:
        """(K~ + shift I)^-1 B for B : (n, m), rows in the order of the tree; (n, m) float64."""
        tree, nodes = self._tree, self._nodes
        B = np.asarray(B, self.dtype)
        reduced: list[np.ndarray] = []
        stack: list[np.ndarray] = []
        for i, node in enumerate(nodes):
            if tree.left[i] < 0:
                rows = B[tree.start[i] : tree.stop[i]]
            else:
                right, left = stack.pop(), stack.pop()
                rows = np.concatenate([left, right])
            if node.basis is None:
                break
            eliminated, skeleton = self._eliminated[i], rows[node.basis.kept]
            others = rows[node.basis.others]
            if len(others):
                others = others - matmul(node.basis.coef, skeleton)
                others = self._substitute(eliminated.lower, others)
                skeleton -= matmul(eliminated.coupling.T, others)
            reduced.append(others)
            stack.append(skeleton)
        out = np.empty(B.shape)
        solution = rows
        if len(rows):
            forward = self._substitute(self._root, rows)
            solution = self._substitute(self._root, forward, transposed=1)
        pending = [(len(nodes) - 1, solution)]
        while pending:
            i, solution = pending.pop()
            if tree.left[i] < 0:
                out[tree.start[i] : tree.stop[i]] = solution
                continue
            left_basis = nodes[tree.left[i]].basis
            assert left_basis is not None
            skeletons = solution[: left_basis.rank], solution[left_basis.rank :]
            for child, skeleton in zip((tree.left[i], tree.right[i]), skeletons, strict=True):
                pending.append((int(child), self._expand(int(child), skeleton, reduced[child])))
        return out

    def _expand(self, i: int, skeleton: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The unknowns of a node from its skeleton's unknowns and its reduced right-hand side."""
        basis, eliminated = self._nodes[i].basis, self._eliminated[i]
        assert basis is not None
        solution = np.empty((len(basis.order), skeleton.shape[1]), self.dtype)
        if len(others):
            others = others - matmul(eliminated.coupling, skeleton)
            others = self._substitute(eliminated.lower, others, transposed=1)
            skeleton = skeleton - matmul(basis.coef.T, others)
            solution[basis.others] = others
        solution[basis.kept] = skeleton
        return solution

    def _substitute(self, lower: np.ndarray, B: np.ndarray, transposed: int = 0) -> np.ndarray:
        """L^-1 B, or L^-T B."""
        if B.shape[1] == 1:
            # trsv reads L once; trsm copies it first.
            return _ROUTINES[self.dtype].trsv(lower, B[:, 0], lower=1, trans=transposed)[:, None]
        return _ROUTINES[self.dtype].trsm(
            1.0, lower, np.asfortranarray(B), lower=1, trans_a=transposed
        )


class ShiftedFactor(LinearOperator):
    """(K~ + shift I)^-1, rows and columns in the order of the data.

    Attributes
    ----------
    shift : float
    logdet : float. log det(K~ + shift I)
    nbytes : int
    """

    def __init__(self, factor: ULVFactor, permutation: np.ndarray) -> None:
        n = len(permutation)
        super().__init__(np.dtype(np.float64), (n, n))
        self._factor, self._permutation = factor, permutation
        self.shift = factor.shift
        self.logdet = factor.logdet
        self.nbytes = factor.nbytes

    def solve(self, B: np.ndarray) -> np.ndarray:
        """(K~ + shift I)^-1 B for B : (n,) or (n, m); the same shape, float64."""
        columns = B if B.ndim == 2 else B[:, None]
        out = np.empty(columns.shape)
        out[self._permutation] = self._factor.solve(columns[self._permutation])
        return out if B.ndim == 2 else out[:, 0]

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        return self.solve(V)

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self.solve(np.ravel(x))

    def _adjoint(self) -> LinearOperator:
        return self

    def _transpose(self) -> LinearOperator:
        return self
