"""Kernel values of all support vectors, computed once for the decision functions that share them.

A model of k classes, one against one, has k (k - 1) / 2 decision functions in the span of the
same s support vectors. A support vector of class c has coefficients in the k - 1 functions of its
class only. With the values K at u rows it therefore suffices to multiply the columns of each class
c by their (s_c, k - 1) coefficients: u s (k - 1) multiplications instead of u s k (k - 1) / 2.
"""

import itertools
import math
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.kernel import check_n_features, check_points, squared_norms
from kbench.kernels.matrix import nbytes
from kbench.kernels.origin import NEAR, origin_of
from kbench.prediction.flops import expansion_flops, require_width

# Kernel values computed at a time: 4 MiB of float32. More values take more memory, fewer cost more
# calls. Set by hand.
_BATCH_VALUES = 2**20
# Values at up to this many centres are float64, which takes at most 50 microseconds more than
# float32 for 100 rows. Set by hand.
FEW_CENTRES = 200
# Squared distance of a centre from the others, in units of the width, above which products of
# float64 lose more than 1e-8 of a kernel value; values then come from differences, which take ten
# times as long. Set by hand.
_FAR = 1e8


class Centres(Protocol):
    """Points whose kernel values with new rows are needed."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that evaluation needs."""

    def __len__(self) -> int: ...

    def values(self, X: Any) -> np.ndarray:
        """k(x, z_j) for rows X : (u, d) and centres z_j; (u, s) float32 or float64."""


class GaussianCentres:
    """exp(-gamma ||x - z||^2) = exp(<x, z> - h(x) - h(z)) by a matrix product, in NumPy alone.

    Nothing has to be compiled, and a single row takes 15 microseconds.

    Parameters
    ----------
    Z : (s, d) array or CSR. The centres.
    error : Largest acceptable change of an expansion by rounding its kernel values to float32. If
        the estimate below is larger, they are computed in float64.
    norm : Largest Euclidean norm of the coefficients of an expansion. Rounding exponents in float32
        changes each value by about eps (1 + max h), up or down at random, and so an expansion by
        about eps (1 + max h) `norm`, which is the estimate.
    """

    def __init__(self, Z: Any, gamma: float, *, error: float, norm: float) -> None:
        Z = _dense(Z).astype(np.float64, copy=False)
        self._mean = Z.mean(axis=0) if len(Z) else np.zeros(Z.shape[1])
        self._scale = math.sqrt(2.0 * gamma)
        A, h = self._scaled(Z)
        # h is gamma ||z - mean||^2, the squared distance in units of the width 1 / sqrt(gamma).
        if h.max(initial=0.0) > NEAR**2:
            self._mean = origin_of(Z, self._mean)
            A, h = self._scaled(Z)
        rounding = float(np.finfo(np.float32).eps) * (1.0 + float(h.max(initial=0.0))) * norm
        is_float64 = len(Z) <= FEW_CENTRES or rounding > error
        self._Z = np.ascontiguousarray(A, np.float64 if is_float64 else np.float32)
        self._h = h.astype(self._Z.dtype)

    @property
    def nbytes(self) -> int:
        return self._Z.nbytes + self._h.nbytes + self._mean.nbytes

    def __len__(self) -> int:
        return len(self._h)

    def _scaled(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Dense rows A whose kernel is exp(-||a - b||^2 / 2), and half their squared norms h."""
        A = (X - self._mean) * self._scale
        return A, 0.5 * squared_norms(A)

    def values(self, X: Any) -> np.ndarray:
        A, h = self._scaled(_dense(X))
        if self._Z.dtype == np.float64 and self._h.max(initial=0.0) > _FAR:
            from scipy.spatial.distance import cdist  # takes 30 ms to import

            return np.exp(-0.5 * cdist(A, self._Z, "sqeuclidean"))
        out = matmul(A.astype(self._Z.dtype, copy=False), self._Z.T)
        out -= self._h
        out -= h[:, None].astype(out.dtype)
        np.minimum(out, 0.0, out=out)
        return np.exp(out, out=out)


class MatrixCentres:
    """Centres of any kernel, among the points of its matrix.

    Parameters
    ----------
    indices : (s,) ints
    dtype : float32 or float64

    Attributes
    ----------
    n_features : int or None. d; None for precomputed kernel values.
    """

    def __init__(self, kernel: KernelMatrix, indices: np.ndarray, dtype: np.dtype) -> None:
        matrix = kernel.astype(dtype)
        self.n_features = None if kernel.X is None else int(kernel.X.shape[1])
        self.kernel: Kernel = matrix.kernel
        self.dtype = np.dtype(dtype)
        self.centres = matrix.centres(indices)

    @property
    def nbytes(self) -> int:
        return nbytes(self.centres)

    def __len__(self) -> int:
        size: int = self.centres.shape[0]
        return size

    def values(self, X: Any) -> np.ndarray:
        require_width(X, self.n_features)
        points = self.kernel.prepare(X, self.dtype)
        out = np.empty((X.shape[0], len(self)), self.dtype)
        self.kernel.evaluate(points, self.centres, out)
        return out

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        n_features = check_n_features(self, self.kernel)
        check_points(self.kernel, self.centres, self.dtype, n_features)


class _Expansion:
    """Functions in the span of the same s centres, with coef : (s, m).

    Attributes
    ----------
    nbytes : int. Bytes of the centres and the coefficients.
    """

    centres: Centres
    coef: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.centres.nbytes + self.coef.nbytes

    def flops(self, n_features: int) -> float:
        """Cost of a row, in products of `n_features` numbers."""
        return expansion_flops(len(self.centres), self.coef.shape[1], n_features)


class SharedExpansion(_Expansion):
    """m functions in the span of the same centres.

    Parameters
    ----------
    centres : s Centres
    coef : (s, m)
    """

    def __init__(self, centres: Centres, coef: np.ndarray) -> None:
        self.centres, self.coef = centres, np.ascontiguousarray(coef, np.float64)

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u, m) float64. O(u s (d + m))."""
        out = np.zeros((X.shape[0], self.coef.shape[1]))
        if len(self.centres):
            for rows in _batches(X.shape[0], len(self.centres)):
                values = self.centres.values(X[rows])
                out[rows] = matmul(values, self.coef.astype(values.dtype, copy=False))
        return out


class PairExpansion(_Expansion):
    """The decision functions of all pairs of k classes.

    Parameters
    ----------
    centres : s Centres, sorted by class
    coef : (k - 1, s)
        For a centre of class c, rows 0 ... c - 1 are its coefficients against the earlier classes,
        the other rows against the later classes.
    n_centres : (k,) ints. Centres of each class.
    """

    def __init__(self, centres: Centres, coef: np.ndarray, n_centres: np.ndarray) -> None:
        self.centres, self.coef = centres, np.ascontiguousarray(coef.T, np.float64)
        self._ends = [0, *itertools.accumulate(n_centres.tolist())]

    def __call__(self, X: Any) -> np.ndarray:
        """Values of classes 0 and 1, 0 and 2, ... at rows X; (u, k (k - 1) / 2) float64."""
        k = len(self._ends) - 1
        out = np.empty((X.shape[0], k * (k - 1) // 2))
        for rows in _batches(X.shape[0], len(self.centres)):
            out[rows] = self._values(X[rows]).T
        return out

    def winners(self, X: Any, intercept: np.ndarray) -> np.ndarray:
        """Numbers of the classes that win most pairs, the first of equals; (u,) ints."""
        out = np.empty(X.shape[0], np.intp)
        *_, signs, n_second = _pairs(len(self._ends) - 1)
        for rows in _batches(X.shape[0], len(self.centres)):
            first_wins = self._values(X[rows]) > -intercept[:, None]
            votes = matmul(signs, first_wins.astype(np.float64)) + n_second
            out[rows] = votes.argmax(axis=0)
        return out

    def _values(self, X: Any) -> np.ndarray:
        """Values of all pairs, (k (k - 1) / 2, u)."""
        k = len(self._ends) - 1
        a, b, *_ = _pairs(k)
        if not len(self.centres):
            return np.zeros((len(a), X.shape[0]))
        values = self.centres.values(X)
        coef = self.coef.astype(values.dtype, copy=False)
        sums = np.zeros((k, k - 1, X.shape[0]), values.dtype)
        for c, (start, stop) in enumerate(itertools.pairwise(self._ends)):
            matmul(coef[start:stop].T, values[:, start:stop].T, out=sums[c])
        return sums[a, b - 1] + sums[b, a]


@lru_cache(maxsize=16)  # numbers of classes k; set by hand
def _pairs(k: int) -> tuple[np.ndarray, ...]:
    """First and second class a < b of each pair of k classes, signs and n_second.

    If w has a 1 for each pair that its first class wins, and else 0, the votes for the k classes
    are signs @ w + n_second. n_second is the number of pairs in which a class is the second: c for
    class c.
    """
    first, second = np.triu_indices(k, 1)
    classes = np.arange(k)[:, None]
    signs = 1.0 * (classes == first) - 1.0 * (classes == second)
    return first, second, signs, classes


def _batches(n_rows: int, n_centres: int) -> list[slice]:
    step = max(1, _BATCH_VALUES // max(1, n_centres))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X
