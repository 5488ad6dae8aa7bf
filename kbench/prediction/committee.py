"""Bayesian committee machine: local predictions weighted by the inverse of their variances.

Tresp, "A Bayesian Committee Machine" (Neural Computation 12, 2000), applied to support vector
models as in the comparison of Hsieh, Si and Dhillon (ICML 2014), Table 1. The paper does not
define the variance of a support vector machine. Here it is the variance of a Gaussian process on
the local support vectors with noise 1/C:

    var_c(x) = k(x, x) - k_c(x)' (K_cc + diag(1/C))^-1 k_c(x),
    f = (1/P) sum_c f_c / var_c,    P = sum_c 1/var_c - (q - 1) / k(x, x)

for q members. As var_c <= k(x, x), P is at least 1 / k(x, x).
"""

from typing import Any

import numpy as np
import scipy.linalg

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.kernels.kernel import check_n_features, check_points
from kbench.kernels.matrix import nbytes
from kbench.prediction.flops import expansion_flops, require_width
from kbench.stored import check_arrays, check_indices, require

# Rows evaluated at a time: memory for their kernel values against the speed of matrix products. Set
# by hand.
_BATCH_ROWS = 2048
# Largest number of support vectors from which a member's variance is computed: its cost for each
# row is quadratic in that number. Set by hand.
_MAX_CENTRES = 1000
# Guard against rounding: the variance is at least this multiple of k(x, x), and k(x, x) is at least
# this number, so that nothing is divided by zero.
_MIN_VARIANCE = 1e-12


class CommitteeMember:
    """The model of one cluster, with a variance for its predictions.

    Parameters
    ----------
    kernel : KernelMatrix of the points of the cluster
    indices : (s,) ints
        Support vectors.
    coef : (s, m)
    noise : (s,)
        1/C of each support vector. The variance is computed from at most 1,000 support vectors,
        which are evenly spaced in `indices`.
    """

    def __init__(
        self, kernel: KernelMatrix, indices: np.ndarray, coef: np.ndarray, noise: np.ndarray
    ) -> None:
        matrix = kernel.astype(np.float64)
        self.n_features = None if kernel.X is None else int(kernel.X.shape[1])
        self.kernel = matrix.kernel
        self.centres = matrix.centres(indices)
        self.coef = coef
        s = len(indices)
        self.chosen = np.unique(np.linspace(0, s - 1, min(s, _MAX_CENTRES)).astype(np.intp))
        gram = matrix.block(indices[self.chosen], matrix.points(indices[self.chosen]))
        gram[np.diag_indices_from(gram)] += noise[self.chosen]
        self.factor = np.linalg.cholesky(gram)

    @property
    def nbytes(self) -> int:
        return nbytes(self.centres) + self.coef.nbytes + self.factor.nbytes + self.chosen.nbytes

    def predict(self, points: Any, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (b, m) and variance (b,) at prepared points; prior : (b,) is k(x, x)."""
        values = np.empty((points.shape[0], len(self.coef)))
        self.kernel.evaluate(points, self.centres, values)
        whitened = scipy.linalg.solve_triangular(self.factor, values[:, self.chosen].T, lower=True)
        variance = prior - np.einsum("ij,ij->j", whitened, whitened)
        # Rounding errors may make the variance negative.
        return matmul(values, self.coef), np.maximum(variance, _MIN_VARIANCE * prior)

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        lengths = check_arrays(self, coef="f8 s m", chosen="i8 c", factor="f8 c c")
        n_features = check_n_features(self, self.kernel)
        n = check_points(self.kernel, self.centres, np.dtype(np.float64), n_features)
        require(n == lengths["s"], f"there are {n} centres for {lengths['s']} coefficients")
        check_indices(self.chosen, n, "chosen")


class BayesianCommittee:
    """Combination of local models; every member evaluates every row.

    Parameters
    ----------
    members : list of CommitteeMember
    n_outputs : int
    """

    def __init__(self, members: list[CommitteeMember], n_outputs: int) -> None:
        self.members = members
        self.n_outputs = n_outputs

    @property
    def nbytes(self) -> int:
        return sum(member.nbytes for member in self.members)

    def flops(self, n_features: int) -> float:
        """Cost of a row, in products of `n_features` numbers."""
        return sum(
            expansion_flops(len(member.coef), self.n_outputs, n_features)
            + len(member.chosen) ** 2 / (2.0 * n_features)
            for member in self.members
        )

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u, m) float64. O(u (s d + sum_c s_c^2)).

        Raises ValueError: the rows have a different number of features.
        """
        for member in self.members:
            require_width(X, member.n_features)
        outputs = np.empty((X.shape[0], self.n_outputs))
        for start in range(0, len(outputs), _BATCH_ROWS):
            rows = slice(start, start + _BATCH_ROWS)
            outputs[rows] = self._combine(X[rows])
        return outputs

    def _combine(self, X: Any) -> np.ndarray:
        weighted, precision = np.zeros((X.shape[0], self.n_outputs)), np.zeros(X.shape[0])
        prior = np.ones(X.shape[0])  # all members have one kernel, so that any member gives k(x, x)
        for member in self.members:
            points = member.kernel.prepare(X, np.dtype(np.float64))
            prior = np.maximum(member.kernel.diagonal(points), _MIN_VARIANCE)
            mean, variance = member.predict(points, prior)
            weighted += mean / variance[:, None]
            precision += 1.0 / variance
        precision -= (len(self.members) - 1) / prior
        return weighted / precision[:, None]
