"""Nystrom with pseudo landmarks: more columns of a kernel matrix from its values at few landmarks.

Algorithm 1 of Si, Hsieh and Dhillon, "Fast Prediction for Large-Scale Kernel Machines" (NIPS 2014),
for the Gaussian kernel. With landmarks u_j, c_j(x) = k(x, u_j) and d_j(x) = ||x - u_j||,

    triangle     k at the bounds max_j |d_j - ||u_j - v_t||| and min_j (d_j + ||u_j - v_t||) of
                 ||x - v_t||, for pseudo landmarks v_t: O(m) each
    monomials    c_i c_j, i <= j: O(1) each

follow from c without a further distance. With the columns cb = [c, f(c)] of rows I, the best
approximation of the kernel matrix in the Frobenius norm is Cb W Cb',

    W = Cb_I^+ G_II (Cb_I^+)',                                                            (6)

whose factor W = R R' makes features phi(x) = cb(x) R. With Cb_I = U S V' and U'GU = Q L Q',
R = V S^-1 Q L^(1/2).
"""

import numpy as np
import scipy.linalg

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.tiles import LOG2_E

# Guard: singular values of Cb below this multiple of the largest are dropped, because in float32
# the columns along their vectors are rounding errors.
_SINGULAR_VALUE_CUT = 1e-5
# Guard: eigenvalues of U'GU below this multiple of the largest are dropped. Their square
# roots scale R, and rounding errors make the smallest ones negative.
_EIGENVALUE_CUT = 1e-10

# Values of the parameter `pseudo`.
PSEUDO = ("none", "monomials", "lower", "upper", "triangle")


class PseudoLandmarks:
    """The columns cb : x -> (m + p,) of the Gaussian kernel.

    Parameters
    ----------
    landmarks : (m, d) array
    pseudo : {"none", "monomials", "lower", "upper", "triangle"}
        "triangle" has the lower and the upper bound, and so two columns for each point.
    points : (p, d) array, for the bounds. The pseudo landmarks v_t.
    pairs : (p, 2) ints, for "monomials". i <= j of each monomial c_i c_j.

    Attributes
    ----------
    spans : (m, p) float64, for the bounds
        ||u_j - v_t|| sqrt(gamma log2 e): in these units k = 2^(-distance^2).
    n_columns : int
    """

    def __init__(
        self,
        landmarks: np.ndarray,
        gamma: float,
        pseudo: str = "none",
        *,
        points: np.ndarray | None = None,
        pairs: np.ndarray | None = None,
    ) -> None:
        self.landmarks, self.gamma, self.pseudo = landmarks, gamma, pseudo
        self.pairs = np.empty((0, 2), np.intp) if pairs is None else pairs
        self._matrix = KernelMatrix(make_kernel("rbf", landmarks, gamma=gamma), landmarks, float)
        m = len(landmarks)
        if points is None:
            self.spans = np.empty((m, 0))
        else:
            differences = landmarks[:, None].astype(np.float64) - points
            self.spans = np.sqrt(gamma * LOG2_E * (differences**2).sum(axis=2))
        columns_per_point = 2 if pseudo == "triangle" else 1
        self.n_columns = m + len(self.pairs) + columns_per_point * self.spans.shape[1]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Columns of rows X : (n, d); (n, n_columns) float64. O(n m (d + p))."""
        kernel = self._matrix.kernel
        c = np.empty((len(X), len(self.landmarks)))
        landmark_points = self._matrix.points(slice(None))
        kernel.evaluate(kernel.prepare(X, np.dtype(np.float64)), landmark_points, c)
        if self.pseudo == "none":
            return c
        if self.pseudo == "monomials":
            return np.hstack([c, c[:, self.pairs[:, 0]] * c[:, self.pairs[:, 1]]])
        distances = np.sqrt(np.maximum(-np.log2(c), 0.0))
        bounds = []
        if self.pseudo in ("lower", "triangle"):
            bound = np.zeros((len(X), self.spans.shape[1]))
            for distance, span in zip(distances.T, self.spans, strict=True):
                np.maximum(bound, np.abs(distance[:, None] - span), out=bound)
            bounds.append(bound)
        if self.pseudo in ("upper", "triangle"):
            bound = np.full((len(X), self.spans.shape[1]), np.inf)
            for distance, span in zip(distances.T, self.spans, strict=True):
                np.minimum(bound, distance[:, None] + span, out=bound)
            bounds.append(bound)
        return np.hstack([c, *(np.exp2(-(bound**2)) for bound in bounds)])


def make_pseudo_landmarks(
    landmarks: np.ndarray,
    gamma: float,
    pseudo: str,
    n_pseudo: int | None,
    X: np.ndarray,
    rng: np.random.RandomState,
) -> PseudoLandmarks:
    """Columns with `n_pseudo` random pseudo landmarks.

    landmarks, gamma, pseudo : As in `PseudoLandmarks`
    n_pseudo : Number of monomials out of m (m + 1) / 2, or of points out of the rows X; None means
        all monomials, or as many points as landmarks.
    X : (n, d) array
    """
    m = len(landmarks)
    if pseudo == "none":
        return PseudoLandmarks(landmarks, gamma)
    if pseudo == "monomials":
        pairs = np.column_stack(np.triu_indices(m))
        if n_pseudo is not None and n_pseudo < len(pairs):
            pairs = pairs[np.sort(rng.choice(len(pairs), n_pseudo, replace=False))]
        return PseudoLandmarks(landmarks, gamma, pseudo, pairs=pairs)
    n_points = min(m if n_pseudo is None else n_pseudo, len(X))
    points = X[rng.choice(len(X), n_points, replace=False)]
    return PseudoLandmarks(landmarks, gamma, pseudo, points=points)


def optimal_factor(columns: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """R with R R' = W of equation (6).

    columns : (q, c) float64. Cb_I
    gram : (q, q) float64. G_II, positive semidefinite.

    Returns (c, r), r <= c.

    O(q c^2 + q^2 c) time. Directions of Cb whose singular values are below the rounding errors of
    float32 are left out.
    """
    orthonormal, triangular = scipy.linalg.qr(columns, mode="economic", check_finite=False)
    left, singular_values, right = scipy.linalg.svd(triangular, check_finite=False)
    rank = int((singular_values > _SINGULAR_VALUE_CUT * singular_values[0]).sum())
    U = matmul(orthonormal, left[:, :rank])
    eigenvalues, vectors = scipy.linalg.eigh(matmul(U.T, matmul(gram, U)), check_finite=False)
    significant = eigenvalues > _EIGENVALUE_CUT * eigenvalues[-1]
    scaled_vectors = vectors[:, significant] * np.sqrt(eigenvalues[significant])
    return matmul(right[:rank].T, scaled_vectors / singular_values[:rank, None])
