"""Kernel matrices of the form G = W L W', W = blockdiag(W_1 .. W_c) with few columns.

One block and L = I is a low-rank approximation (Nystrom, random features); several blocks and a
dense L are MEKA's form (Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation", JMLR 18,
2017). With M = W'W = R'R, block by block, S = R L R' holds all nonzero eigenvalues of G, and

    (G + alpha I)^-1 Y = (Y - W L R' t) / alpha,    (S + alpha I) t = R^-T W' Y:

Woodbury's identity without an inverse of L, which may be singular. (The paper prints the factor
1 / alpha as alpha.) S + alpha I has a Cholesky factorisation if and only if G + alpha I is
positive definite.
"""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg

from kbench.approximation.feature_machine import FeatureMachine
from kbench.approximation.feature_map import FeatureMap
from kbench.approximation.operator import KernelApproximation, Machine

# Rows per block of a sum W'W or W'Y. Sums of a block are in the precision of W, sums of blocks in
# float64. Larger blocks lose digits of float32, smaller ones make GEMM slow. Set by hand.
_BATCH = 4096
# Eigenvalues of W'W below this multiple of the largest are rounding errors; their directions are
# dropped. The keys are the bytes of a number of W: 4 for float32, 8 for float64.
_DEPENDENT = {4: 1e-10, 8: 1e-14}


class FactoredKernel(KernelApproximation):
    """G = W L W'; a subclass computes the rows of W of new points.

    Parameters
    ----------
    groups : list of (n_s,) indices
        Training rows of each block; together 0 .. n-1.
    bases : list of (n_s, k_s) arrays
        W_s, float32 or float64.
    link : (r, r) array or None
        L, symmetric, r = sum k_s; None is the identity, for one block.
    kernel_entries : int
        Number of kernel values computed for bases and link.
    """

    def __init__(
        self,
        groups: list[np.ndarray],
        bases: list[np.ndarray],
        link: np.ndarray | None,
        kernel_entries: int = 0,
    ) -> None:
        super().__init__(sum(len(rows) for rows in groups), kernel_entries)
        self.groups, self.bases, self.link = groups, bases, link
        ends = np.cumsum([0] + [basis.shape[1] for basis in bases])
        self._columns = [slice(a, b) for a, b in pairwise(ends)]
        self._positions = np.empty((2, self.shape[0]), np.intp)
        for s, rows in enumerate(groups):
            self._positions[:, rows] = [np.full(len(rows), s), np.arange(len(rows))]

    @property
    def rank(self) -> int:
        """Columns of W."""
        return self._columns[-1].stop

    @property
    def nbytes_(self) -> int:
        held = sum(basis.nbytes + rows.nbytes for basis, rows in self._blocks())
        return held + self._positions.nbytes + (0 if self.link is None else self.link.nbytes)

    @property
    def n_parameters_(self) -> int:
        links = 0 if self.link is None else int(np.count_nonzero(self.link))
        return sum(basis.size for basis in self.bases) + links

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return zip(self.bases, self.groups, strict=True)

    def _linked(self, weights: np.ndarray) -> np.ndarray:
        """L @ weights : (r, m)."""
        return weights if self.link is None else self.link.astype(weights.dtype) @ weights

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        dtype = self.bases[0].dtype
        inner = np.empty((self.rank, V.shape[1]), dtype)
        for (basis, rows), columns in zip(self._blocks(), self._columns, strict=True):
            inner[columns] = basis.T @ V[rows].astype(dtype)
        if self.link is not None:
            inner = self.link @ inner
        out = np.empty(V.shape)
        for (basis, rows), columns in zip(self._blocks(), self._columns, strict=True):
            out[rows] = basis @ inner[columns]
        return out

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Rows of G at a indices; O(a n k) time, besides the products with L."""
        block, position = self._positions[:, indices]
        linked = np.empty((len(indices), self.rank), self._linked_dtype)
        for s in np.unique(block):
            chosen = block == s
            linked[chosen] = self._linked_features(int(s), self.bases[s][position[chosen]])
        return self._expand(linked)

    @property
    def _linked_dtype(self) -> np.dtype:
        return np.result_type(*self.bases[:1], *([] if self.link is None else [self.link]))

    def _linked_features(self, s: int, features: np.ndarray) -> np.ndarray:
        """features L[s, :] for rows of W : (a, k_s) of block s; (a, r)."""
        return features if self.link is None else features @ self.link[self._columns[s]]

    def _expand(self, linked: np.ndarray) -> np.ndarray:
        """linked W' for rows of W L : (a, r); (a, n)."""
        if self.link is None:
            return linked @ self.bases[0].T
        # One gather at the end is four times as fast as writing each block to its columns.
        by_block = np.empty((len(linked), self.shape[1]), self.bases[0].dtype)
        starts = np.cumsum([0] + [len(rows) for rows in self.groups])
        for basis, start, columns in zip(self.bases, starts, self._columns, strict=False):
            by_block[:, start : start + len(basis)] = linked[:, columns] @ basis.T
        block, position = self._positions
        return np.take(by_block, starts[block] + position, axis=1)

    def scaled(self, scale: np.ndarray) -> "FactoredKernel":
        """S G S for S = diag(scale), with the link of G; O(n k)."""
        other = copy.copy(self)
        for cached in ("_core", "_spectrum"):
            other.__dict__.pop(cached, None)
        other.bases = [
            basis * scale[rows, None].astype(basis.dtype) for basis, rows in self._blocks()
        ]
        return other

    def solve(self, Y: np.ndarray, alpha: float) -> np.ndarray:
        """(G + alpha I)^-1 Y. O(n k^2 + r^3 / 3) time, O(r^2) memory."""
        roots, core = self._core
        right = self._right(Y, roots)
        try:
            factor = scipy.linalg.cho_factor(core + alpha * np.eye(len(core)), overwrite_a=True)
            inner = scipy.linalg.cho_solve(factor, right)
            return self._dual(Y, self._linked(self._rooted(roots, inner)), alpha)
        except scipy.linalg.LinAlgError:
            return self._solve_spectrum(Y, right, roots, np.array([alpha]))[0]

    def preconditioner(self, alpha: float, rank: int = 1024) -> Callable[[np.ndarray], np.ndarray]:
        """(G~ + alpha I)^-1 with G~ exact on `rank` directions and block diagonal on the others.

        The directions are the `rank` leading ones among the eigenvectors of all the blocks
        W_s L_ss W_s'; the inverse is exact if `rank` is their total number. It costs
        O(n k^2 + rank^3 + rank k sum k_s) to make, and O(n k + rank^2) to apply, which is about as
        much as a product with G.
        """
        frames, lifts, eigenvalues = zip(*map(self._frame, range(len(self.bases))), strict=True)
        ends = np.cumsum([0] + [len(values) for values in eigenvalues])
        spans = [slice(a, b) for a, b in pairwise(ends)]
        values = np.concatenate(eigenvalues)
        leading = np.sort(np.argsort(-values, kind="stable")[:rank])
        within = [leading[(span.start <= leading) & (leading < span.stop)] for span in spans]
        lifts = [
            lift[:, top - span.start] for lift, top, span in zip(lifts, within, spans, strict=True)
        ]
        core_values, core_vectors = scipy.linalg.eigh(self._projected(lifts))
        core_values = np.maximum(core_values, 0.0)

        def apply(R: np.ndarray) -> np.ndarray:
            inner = np.vstack(
                [
                    frame.T @ (basis.T @ R[rows].astype(basis.dtype))
                    for frame, (basis, rows) in zip(frames, self._blocks(), strict=True)
                ]
            )
            shrunk = inner / (values + alpha)[:, None]
            rotated = (core_vectors.T @ inner[leading]) / (core_values + alpha)[:, None]
            shrunk[leading] = core_vectors @ rotated
            shrunk = alpha * shrunk - inner
            out = np.empty(R.shape)
            for frame, span, (basis, rows) in zip(frames, spans, self._blocks(), strict=True):
                out[rows] = R[rows] + basis @ (frame @ shrunk[span]).astype(basis.dtype)
            out /= alpha
            return out

        return apply

    def _frame(self, s: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Eigenvectors W_s F of W_s L_ss W_s', T with W_s = W_s F T', and the eigenvalues."""
        root = _root(self.bases[s])
        columns = self._columns[s]
        block = root @ root.T if self.link is None else root @ self.link[columns, columns] @ root.T
        values, vectors = scipy.linalg.eigh(block)
        # L_ss of a clipped L has eigenvalues of zero that rounding may make negative.
        return _pinv(root) @ vectors, root.T @ vectors, np.maximum(values, 0.0)

    def _projected(self, lifts: list[np.ndarray]) -> np.ndarray:
        """T' L T for T = blockdiag(lifts)."""
        if self.link is None:
            return lifts[0].T @ lifts[0]
        left = np.vstack(
            [lift.T @ self.link[c] for lift, c in zip(lifts, self._columns, strict=True)]
        )
        core = np.hstack([left[:, c] @ lift for lift, c in zip(lifts, self._columns, strict=True)])
        return 0.5 * (core + core.T)

    def solve_path(self, Y: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """`solve` for several alphas from one eigendecomposition of the (r, r) core."""
        roots, _ = self._core
        return self._solve_spectrum(Y, self._right(Y, roots), roots, np.asarray(alphas))

    def _solve_spectrum(
        self, Y: np.ndarray, right: np.ndarray, roots: list[np.ndarray], alphas: np.ndarray
    ) -> np.ndarray:
        values, vectors = self._spectrum
        if values[0] + alphas.min() <= 0:
            warnings.warn(
                f"the approximate kernel matrix has eigenvalues down to {values[0]:.3g}, below "
                f"-alpha = {-alphas.min():.3g}: negative ones are replaced by zero",
                RuntimeWarning,
                stacklevel=4,
            )
            values = np.maximum(values, 0.0)
        rotated = vectors.T @ right
        # G = Q V diag(values) V' Q' with orthonormal Q = W R^-1.
        inverse = [_pinv(root) for root in roots]
        solutions = []
        for alpha in alphas:
            shrunk = vectors @ ((values / (values + alpha))[:, None] * rotated)
            solutions.append(self._dual(Y, self._rooted([i.T for i in inverse], shrunk), alpha))
        return np.stack(solutions)

    @cached_property
    def _core(self) -> tuple[list[np.ndarray], np.ndarray]:
        """R_s : (rank of W_s, k_s) with R_s'R_s = W_s'W_s, and S = R L R'."""
        roots = [_root(basis) for basis in self.bases]
        return roots, self._projected([root.T for root in roots])

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = scipy.linalg.eigh(self._core[1])
        return values, vectors

    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of G other than the zeros beyond its rank, ascending. O(n k^2 + r^3)."""
        return self._spectrum[0]

    def _right(self, Y: np.ndarray, roots: list[np.ndarray]) -> np.ndarray:
        """R^-T W' Y."""
        parts = [
            _pinv(root).T @ _transposed_product(basis, Y[rows])
            for root, (basis, rows) in zip(roots, self._blocks(), strict=True)
        ]
        return np.vstack(parts)

    @staticmethod
    def _rooted(roots: list[np.ndarray], inner: np.ndarray) -> np.ndarray:
        """R' inner, block by block."""
        ends = np.cumsum([0] + [len(root) for root in roots])
        parts = [root.T @ inner[a:b] for root, (a, b) in zip(roots, pairwise(ends), strict=True)]
        return np.vstack(parts)

    def _dual(self, Y: np.ndarray, weights: np.ndarray, alpha: float) -> np.ndarray:
        """(Y - W weights) / alpha."""
        out = np.empty(Y.shape)
        for (basis, rows), columns in zip(self._blocks(), self._columns, strict=True):
            out[rows] = Y[rows] - _product(basis, weights[columns])
        return out / alpha

    def weights(self, coef: np.ndarray) -> np.ndarray:
        """L W' coef for coef : (n, m); (r, m) float64. A new point's row of W times it is f(x)."""
        inner = np.vstack([_transposed_product(b, coef[rows]) for b, rows in self._blocks()])
        return self._linked(inner)

    @abstractmethod
    def cross(self, X: Any) -> np.ndarray: ...


class LowRankKernel(FactoredKernel):
    """G = Z Z' with the explicit features Z of the training rows.

    Parameters
    ----------
    feature_map : FeatureMap, fitted
    X : (n, d) checked rows
    dtype : float32 or float64
    """

    def __init__(self, feature_map: FeatureMap, X: Any, dtype: Any = np.float32) -> None:
        features = np.empty((X.shape[0], feature_map.n_features_out_), dtype)
        feature_map.fill(X, features)
        entries = feature_map.kernel_entries_ + len(features) * feature_map.n_landmarks_
        super().__init__([np.arange(len(features))], [features], None, entries)
        self.feature_map = feature_map

    def cross(self, X: Any) -> np.ndarray:
        features = np.empty((X.shape[0], self.rank), self.bases[0].dtype)
        self.feature_map.fill(X, features)
        return features @ self.bases[0].T

    def machine(self, coef: np.ndarray) -> Machine:
        return FeatureMachine(self.feature_map, self.weights(coef))


def _root(basis: np.ndarray) -> np.ndarray:
    """R : (p, k) with R'R = W'W and orthogonal rows."""
    gram = np.zeros((basis.shape[1], basis.shape[1]))
    for start in range(0, len(basis), _BATCH):
        part = basis[start : start + _BATCH]
        gram += part.T @ part
    values, vectors = scipy.linalg.eigh(gram)
    kept = values > _DEPENDENT[basis.itemsize] * max(values[-1], 0.0)
    return np.sqrt(values[kept])[:, None] * vectors[:, kept].T


def _pinv(root: np.ndarray) -> np.ndarray:
    """Pseudo-inverse of a matrix with orthogonal rows."""
    return (root / np.einsum("ij,ij->i", root, root)[:, None]).T


def _product(basis: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """W weights in float64, a batch of rows at a time."""
    out = np.empty((len(basis), weights.shape[1]))
    for start in range(0, len(basis), _BATCH):
        rows = slice(start, start + _BATCH)
        out[rows] = basis[rows].astype(np.float64, copy=False) @ weights
    return out


def _transposed_product(basis: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """W' Y in float64, a batch of rows at a time."""
    out = np.zeros((basis.shape[1], Y.shape[1]))
    for start in range(0, len(basis), _BATCH):
        rows = slice(start, start + _BATCH)
        out += basis[rows].astype(np.float64, copy=False).T @ Y[rows]
    return out
