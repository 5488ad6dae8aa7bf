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
from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from kbench.approximation.operator import KernelApproximation, Machine
from kbench.errors import warn
from kbench.intrinsics.products import matmul
from kbench.kernels.threads import cached_property

# Rows per block of a sum W'W or W'Y. W'W of a block is computed in the precision of W, and blocks
# are summed in float64: larger blocks lose digits of float32, smaller ones make GEMM slow. Set by
# hand.
_BATCH_ROWS = 4096
# Eigenvalues of W'W below this multiple of the largest are rounding errors; their directions are
# dropped. The keys are the bytes of a number of W: 4 for float32, 8 for float64. Guard.
_RANK_CUT = {4: 1e-10, 8: 1e-14}


class RowBasis(Protocol):
    """Computes the rows of W of any points, and the functions x -> <row of W at x, weights>.

    Attributes
    ----------
    ranks : list of int. k_s, columns of each block.
    link : (r, r) array or None. L; None is the identity, for one block.
    dtype : float32 or float64. Precision of W.
    """

    @property
    def ranks(self) -> list[int]: ...

    @property
    def link(self) -> np.ndarray | None: ...

    @property
    def dtype(self) -> np.dtype: ...

    def blocks(self, X: Any) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield for each block with rows of X : (u, d) its number s, the rows' indices, and their
        rows of W : (.., k_s)."""

    def machine(self, weights: np.ndarray) -> Machine:
        """The function x -> <row of W at x, weights> for weights : (r, m)."""


class FactoredEquations:
    """W'W and W'Y of G = W L W', summed over rows that are read once.

    The sums determine the ridge model of all rows: with the solution t of (S + alpha I) t =
    R^-T W'Y, the function is x -> <row of W at x, L R' t>. Memory holds the sums, whatever the
    number of rows.

    Parameters
    ----------
    n_outputs : m, columns of Y
    """

    def __init__(self, basis: RowBasis, n_outputs: int) -> None:
        self._basis = basis
        self.grams = [np.zeros((k, k)) for k in basis.ranks]
        self.products = [np.zeros((k, n_outputs)) for k in basis.ranks]

    def add(self, X: Any, Y: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Add rows X : (b, d) with targets Y : (b, m) and weights (b,). O(b k (d + k)) time."""
        for s, rows, W in self._basis.blocks(X):
            targets = Y[rows]
            if weight is not None:
                root = np.sqrt(weight[rows])[:, None]
                W, targets = W * root.astype(W.dtype), targets * root
            _add_gram(W, self.grams[s])
            _add_product(W, targets, self.products[s])

    def weights(self, alpha: float) -> np.ndarray:
        """Weights of the columns of W in the ridge model; (r, m) float64. O(r^3 / 3) time.

        If G + alpha I is not positive definite, the negative eigenvalues of G are replaced by zero,
        with a RuntimeWarning, as `KernelApproximation.solve` does.
        """
        itemsize = self._basis.dtype.itemsize
        core = _Core([_root(gram, itemsize) for gram in self.grams], self._basis.link)
        return core.ridge_weights(self.products, alpha)


class _Core:
    """S = R L R', which holds all nonzero eigenvalues of G, and the solutions of its systems.

    Parameters
    ----------
    roots : list of (p_s, k_s) arrays. R_s with R_s'R_s = W_s'W_s and orthogonal rows.
    link : (r, r) array or None
    """

    def __init__(self, roots: list[np.ndarray], link: np.ndarray | None) -> None:
        self.roots, self.link = roots, link
        self.columns = _spans([root.shape[1] for root in roots])
        self.matrix = _project([root.T for root in roots], link, self.columns)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        eigenvalues, vectors = scipy.linalg.eigh(self.matrix)
        return eigenvalues, vectors

    def ridge_weights(self, products: list[np.ndarray], alpha: float) -> np.ndarray:
        """L W' (G + alpha I)^-1 Y = L R' t for the blocks W_s'Y of `products`; (r, m).

        Negative eigenvalues of G are replaced by zero in the solve if G + alpha I is not positive
        definite.
        """
        try:
            t = self._solve_shifted(products, alpha)
        except scipy.linalg.LinAlgError:
            eigenvalues, vectors = self._clipped_spectrum(alpha)
            rotated = matmul(vectors.T, self._right_hand_side(products))
            t = matmul(vectors, rotated / (eigenvalues + alpha)[:, None])
        return self._times_link(t)

    def dual_weights(self, products: list[np.ndarray], alpha: float) -> np.ndarray:
        """Weights u of (Y - W u) / alpha = (G + alpha I)^-1 Y; (r, m).

        Negative eigenvalues of G are treated as in `ridge_weights`.
        """
        try:
            return self._times_link(self._solve_shifted(products, alpha))
        except scipy.linalg.LinAlgError:
            eigenvalues, vectors = self._clipped_spectrum(alpha)
        rotated = matmul(vectors.T, self._right_hand_side(products))
        # G = Q V diag(eigenvalues) V' Q' with orthonormal Q = W R^-1.
        inverse_roots = [_pinv(root) for root in self.roots]
        filter_factors = eigenvalues / (eigenvalues + alpha)
        return self._lift(inverse_roots, matmul(vectors, filter_factors[:, None] * rotated))

    def _solve_shifted(self, products: list[np.ndarray], alpha: float) -> np.ndarray:
        """t = (S + alpha I)^-1 R^-T W'Y, or a LinAlgError if S + alpha I is indefinite."""
        shifted = self.matrix + alpha * np.eye(len(self.matrix))
        factor = scipy.linalg.cho_factor(shifted, overwrite_a=True)
        return scipy.linalg.cho_solve(factor, self._right_hand_side(products))

    def _clipped_spectrum(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of S, negative ones replaced by zero with a warning, and eigenvectors."""
        eigenvalues, vectors = self.spectrum
        if eigenvalues[0] + alpha <= 0:
            warn(
                f"the approximate kernel matrix has eigenvalues down to {eigenvalues[0]:.3g}, "
                f"below -alpha = {-alpha:.3g}: negative ones are replaced by zero",
                RuntimeWarning,
            )
            eigenvalues = np.maximum(eigenvalues, 0.0)
        return eigenvalues, vectors

    def _times_link(self, t: np.ndarray) -> np.ndarray:
        """L R' t."""
        lifted = self._lift([root.T for root in self.roots], t)
        return lifted if self.link is None else matmul(self.link.astype(lifted.dtype), lifted)

    def _right_hand_side(self, products: list[np.ndarray]) -> np.ndarray:
        """R^-T W' Y."""
        pairs = zip(self.roots, products, strict=True)
        return np.vstack([matmul(_pinv(root).T, product) for root, product in pairs])

    def _lift(self, factors: list[np.ndarray], t: np.ndarray) -> np.ndarray:
        """blockdiag(factors) t, for factors of (k_s, p_s)."""
        spans = _spans([factor.shape[1] for factor in factors])
        pairs = zip(factors, spans, strict=True)
        return np.vstack([matmul(factor, t[span]) for factor, span in pairs])


class FactoredKernel(KernelApproximation):
    """G = W L W'; a subclass computes the rows of G of new points.

    Parameters
    ----------
    basis : RowBasis
        Computes the rows of W of new points, and holds L.
    groups : list of (n_s,) indices
        Training rows of each block; together 0 .. n-1.
    bases : list of (n_s, k_s) arrays
        W_s, float32 or float64.
    kernel_entries : int
        Number of kernel values computed for bases and link.
    """

    def __init__(
        self,
        basis: RowBasis,
        groups: list[np.ndarray],
        bases: list[np.ndarray],
        kernel_entries: int = 0,
    ) -> None:
        super().__init__(sum(len(rows) for rows in groups), kernel_entries)
        self.basis, self.groups, self.bases = basis, groups, bases
        self._columns = _spans([W.shape[1] for W in bases])
        self._positions = np.empty((2, self.shape[0]), np.intp)
        for s, rows in enumerate(groups):
            self._positions[:, rows] = [np.full(len(rows), s), np.arange(len(rows))]

    @property
    def link(self) -> np.ndarray | None:
        """L : (r, r), symmetric; None is the identity, for one block."""
        return self.basis.link

    @property
    def rank(self) -> int:
        """Columns of W."""
        return self._columns[-1].stop

    @property
    def nbytes_(self) -> int:
        n_bytes = sum(W.nbytes + rows.nbytes for W, rows in self._blocks())
        return n_bytes + self._positions.nbytes + (0 if self.link is None else self.link.nbytes)

    @property
    def n_parameters_(self) -> int:
        n_link_numbers = 0 if self.link is None else int(np.count_nonzero(self.link))
        return sum(W.size for W in self.bases) + n_link_numbers

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return zip(self.bases, self.groups, strict=True)

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        dtype = self.bases[0].dtype
        projected = np.empty((self.rank, V.shape[1]), dtype)
        for (W, rows), columns in zip(self._blocks(), self._columns, strict=True):
            projected[columns] = matmul(W.T, V[rows].astype(dtype))
        if self.link is not None:
            projected = matmul(self.link, projected)
        out = np.empty(V.shape)
        for (W, rows), columns in zip(self._blocks(), self._columns, strict=True):
            out[rows] = matmul(W, projected[columns])
        return out

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Rows of G at indices : (a,); O(a n k) time, besides the products with L."""
        block, position = self._positions[:, indices]
        WL = np.empty((len(indices), self.rank), self._linked_dtype)
        for s in np.unique(block):
            in_block = block == s
            WL[in_block] = self._linked_features(int(s), self.bases[s][position[in_block]])
        return self._expand(WL)

    @property
    def _linked_dtype(self) -> np.dtype:
        return np.result_type(*self.bases[:1], *([] if self.link is None else [self.link]))

    def _linked_features(self, s: int, features: np.ndarray) -> np.ndarray:
        """features L[s, :] for rows of W : (a, k_s) of block s; (a, r)."""
        return features if self.link is None else matmul(features, self.link[self._columns[s]])

    def _expand(self, WL: np.ndarray) -> np.ndarray:
        """WL W' for rows WL : (a, r) of W L; (a, n)."""
        if self.link is None:
            return matmul(WL, self.bases[0].T)
        # One gather at the end is four times as fast as writing each block to its columns.
        values_by_block = np.empty((len(WL), self.shape[1]), self.bases[0].dtype)
        starts = np.cumsum([0] + [len(rows) for rows in self.groups])
        for W, start, columns in zip(self.bases, starts, self._columns, strict=False):
            values_by_block[:, start : start + len(W)] = matmul(WL[:, columns], W.T)
        block, position = self._positions
        return np.take(values_by_block, starts[block] + position, axis=1)

    def scaled(self, scale: np.ndarray) -> "FactoredKernel":
        """S G S for S = diag(scale), with the link of G; O(n k)."""
        scaled_copy = copy.copy(self)
        scaled_copy.__dict__.pop("_core", None)
        scaled_copy.bases = [W * scale[rows, None].astype(W.dtype) for W, rows in self._blocks()]
        return scaled_copy

    def solve(self, Y: np.ndarray, alpha: float) -> np.ndarray:
        """(G + alpha I)^-1 Y. O(n k^2 + r^3 / 3) time, O(r^2) memory."""
        weights = self._core.dual_weights(self._products(Y), alpha)
        out = np.empty(Y.shape)
        for (W, rows), columns in zip(self._blocks(), self._columns, strict=True):
            out[rows] = Y[rows] - _product(W, weights[columns])
        return out / alpha

    def ridge_machine(
        self, Y: np.ndarray, alpha: float, scale: np.ndarray | None = None
    ) -> Machine:
        """As in `KernelApproximation`, from the weights of the columns of W; costs as `solve`.

        Coefficients of rows are differences (Y - W u) / alpha, which lose all digits of float32
        where the eigenvalues of G are 10^6 alpha and more, as with rows that are repeated often.
        """
        if scale is not None:
            return self.scaled(scale).ridge_machine(scale[:, None] * Y, alpha)
        return self.basis.machine(self._core.ridge_weights(self._products(Y), alpha))

    def machine(self, coef: np.ndarray) -> Machine:
        return self.basis.machine(self.weights(coef))

    def preconditioner(self, alpha: float, rank: int = 1024) -> Callable[[np.ndarray], np.ndarray]:
        """(G~ + alpha I)^-1 with G~ exact on `rank` directions and block diagonal on the others.

        The directions are the `rank` leading ones among the eigenvectors of all the blocks
        W_s L_ss W_s'; the inverse is exact if `rank` is their total number. It costs
        O(n k^2 + rank^3 + rank k sum k_s) to make, and O(n k + rank^2) to apply, which is about as
        much as a product with G. The default of `rank` is set by hand.
        """
        frames, lifts, eigenvalues = zip(*map(self._frame, range(len(self.bases))), strict=True)
        spans = _spans([len(values) for values in eigenvalues])
        values = np.concatenate(eigenvalues)
        leading = np.sort(np.argsort(-values, kind="stable")[:rank])
        leading_of_block = [
            leading[(span.start <= leading) & (leading < span.stop)] for span in spans
        ]
        lifts = [
            lift[:, leading_in_block - span.start]
            for lift, leading_in_block, span in zip(lifts, leading_of_block, spans, strict=True)
        ]
        core_values, core_vectors = scipy.linalg.eigh(_project(lifts, self.link, self._columns))
        core_values = np.maximum(core_values, 0.0)

        def apply(R: np.ndarray) -> np.ndarray:
            projected = np.vstack(
                [
                    matmul(frame.T, matmul(W.T, R[rows].astype(W.dtype)))
                    for frame, (W, rows) in zip(frames, self._blocks(), strict=True)
                ]
            )
            shrunk = projected / (values + alpha)[:, None]
            rotated = matmul(core_vectors.T, projected[leading]) / (core_values + alpha)[:, None]
            shrunk[leading] = matmul(core_vectors, rotated)
            shrunk = alpha * shrunk - projected
            out = np.empty(R.shape)
            for frame, span, (W, rows) in zip(frames, spans, self._blocks(), strict=True):
                out[rows] = R[rows] + matmul(W, matmul(frame, shrunk[span]).astype(W.dtype))
            out /= alpha
            return out

        return apply

    def _frame(self, s: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F, T and eigenvalues (p_s,) of W_s L_ss W_s', with eigenvectors W_s F and W_s = W_s F T'.

        F and T : (k_s, p_s) for W_s of rank p_s; `preconditioner` calls F a frame and T a lift.
        """
        root = _basis_root(self.bases[s])
        columns = self._columns[s]
        block = (
            matmul(root, root.T)
            if self.link is None
            else matmul(matmul(root, self.link[columns, columns]), root.T)
        )
        eigenvalues, vectors = scipy.linalg.eigh(block)
        # L_ss of a clipped L has eigenvalues of zero that rounding may make negative.
        return matmul(_pinv(root), vectors), matmul(root.T, vectors), np.maximum(eigenvalues, 0.0)

    @cached_property
    def _core(self) -> _Core:
        return _Core([_basis_root(W) for W in self.bases], self.link)

    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of G other than the zeros beyond its rank, ascending. O(n k^2 + r^3)."""
        return self._core.spectrum[0]

    def _products(self, Y: np.ndarray) -> list[np.ndarray]:
        """W_s' Y."""
        return [_transposed_product(W, Y[rows]) for W, rows in self._blocks()]

    def weights(self, coef: np.ndarray) -> np.ndarray:
        """Return u = L W' coef for coef : (n, m); (r, m) float64. O(n k m + r^2 m) time.

        The functions with these coefficients are f(x) = w'u, where w is the row of W at x.
        """
        projected = np.vstack(self._products(coef))
        return (
            projected if self.link is None else matmul(self.link.astype(projected.dtype), projected)
        )

    @abstractmethod
    def cross(self, X: Any) -> np.ndarray: ...


def _spans(lengths: list[int]) -> list[slice]:
    """Consecutive slices of these lengths."""
    return [slice(a, b) for a, b in pairwise(np.cumsum([0, *lengths]))]


def _project(lifts: list[np.ndarray], link: np.ndarray | None, columns: list[slice]) -> np.ndarray:
    """T' L T for T = blockdiag(lifts)."""
    if link is None:
        return matmul(lifts[0].T, lifts[0])
    left = np.vstack([matmul(lift.T, link[c]) for lift, c in zip(lifts, columns, strict=True)])
    core = np.hstack([matmul(left[:, c], lift) for lift, c in zip(lifts, columns, strict=True)])
    return 0.5 * (core + core.T)


def _basis_root(W: np.ndarray) -> np.ndarray:
    """R : (p, k) with R'R = W'W and orthogonal rows."""
    gram = np.zeros((W.shape[1], W.shape[1]))
    _add_gram(W, gram)
    return _root(gram, W.itemsize)


def _root(gram: np.ndarray, itemsize: int) -> np.ndarray:
    """R : (p, k) with R'R = gram = W'W and orthogonal rows; `itemsize` : bytes of a number of W."""
    eigenvalues, vectors = scipy.linalg.eigh(gram)
    independent = eigenvalues > _RANK_CUT[itemsize] * max(eigenvalues[-1], 0.0)
    return np.sqrt(eigenvalues[independent])[:, None] * vectors[:, independent].T


def _add_gram(W: np.ndarray, gram: np.ndarray) -> None:
    """gram += W'W, a batch of rows at a time."""
    for start in range(0, len(W), _BATCH_ROWS):
        batch = W[start : start + _BATCH_ROWS]
        gram += matmul(batch.T, batch)


def _pinv(root: np.ndarray) -> np.ndarray:
    """Pseudo-inverse of a matrix with orthogonal rows."""
    return (root / np.einsum("ij,ij->i", root, root)[:, None]).T


def _product(W: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """W weights in float64, a batch of rows at a time."""
    out = np.empty((len(W), weights.shape[1]))
    for start in range(0, len(W), _BATCH_ROWS):
        rows = slice(start, start + _BATCH_ROWS)
        out[rows] = matmul(W[rows].astype(np.float64, copy=False), weights)
    return out


def _transposed_product(W: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """W' Y in float64, a batch of rows at a time."""
    out = np.zeros((W.shape[1], Y.shape[1]))
    _add_product(W, Y, out)
    return out


def _add_product(W: np.ndarray, Y: np.ndarray, out: np.ndarray) -> None:
    """out += W' Y in float64, a batch of rows at a time."""
    for start in range(0, len(W), _BATCH_ROWS):
        rows = slice(start, start + _BATCH_ROWS)
        out += matmul(W[rows].astype(np.float64, copy=False).T, Y[rows])
