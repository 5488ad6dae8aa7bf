"""Leading eigenvectors of the kernel matrix of landmarks, and the projections made from them.

With K_ZZ ~ U Sigma U' of rank k and T = U Sigma^(-1/2), the features k(x, Z) T give the rank-k
Nystrom approximation. The eigenvectors are computed exactly; by a randomised range finder (Li, Kwok
and Lu, "Making Large-Scale Nystrom Approximation Possible", ICML 2010; Halko, Martinsson and Tropp,
SIAM Review 53, 2011); or by Lanczos iterations, for many landmarks and few eigenvectors.

The best rank-k approximation in the span of the landmarks needs all of K_ZZ and kernel values at
the rows (Pourkamali-Anaraki and Becker, "Improved Fixed-Rank Nystrom Approximation via QR
Decomposition", Neurocomputing 363, 2019): with R = U Sigma^(-1/2) of full rank and F = K_XZ R, T =
R V with the k leading right singular vectors V of F.
"""

from collections.abc import Iterable

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

from kbench.intrinsics.products import matmul

# Guard: eigenvalues below this multiple of the largest are dropped, because float32 features along
# their vectors would be rounding errors.
_EIGENVALUE_CUT = 1e-6
# Extra columns of the sketch, and power iterations, of the randomised range finder: more of either
# raise accuracy and cost. Halko, Martinsson and Tropp recommend both for slowly decaying spectra.
_OVERSAMPLING = 10
_POWER_ITERATIONS = 1


def leading_eigenpairs(
    gram: np.ndarray, rank: int, eigensolver: str, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, descending, and their vectors.

    Parameters
    ----------
    gram : (m, m) float64, symmetric positive semidefinite
    eigensolver : {"exact", "randomized", "lanczos"}
        Costs are O(m^3), O(m^2 (k + 10)) at less accuracy, and O(m^2 k) with a larger constant.

    Returns
    -------
    values : (k,)
        At most `rank` values, and only those above 1e-6 times the largest.
    vectors : (m, k)
    """
    m = len(gram)
    rank = min(rank, m)
    if eigensolver == "randomized" and rank + _OVERSAMPLING < m:
        eigenvalues, vectors = _randomized_eigenpairs(gram, rank, rng)
    elif eigensolver == "lanczos" and rank < m // 2:  # for more, `eigh` is faster; set by hand
        eigenvalues, vectors = eigsh(gram, rank, v0=rng.standard_normal(m))
    else:
        eigenvalues, vectors = scipy.linalg.eigh(gram, subset_by_index=(m - rank, m - 1))
    eigenvalues, vectors = eigenvalues[::-1][:rank], vectors[:, ::-1][:, :rank]
    significant = eigenvalues > _EIGENVALUE_CUT * max(eigenvalues[0], 0.0)
    return eigenvalues[significant], vectors[:, significant]


def leading_directions(
    gram: np.ndarray,
    columns: Iterable[np.ndarray],
    rank: int,
    eigensolver: str,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray]:
    """The k directions in the span of the landmarks with the largest energy on the rows.

    Parameters
    ----------
    gram : (m, m) float64. K_ZZ
    columns : blocks (a, m) float64. K_XZ in blocks of rows.
    rank, eigensolver : As in `leading_eigenpairs`, for F'F

    Returns
    -------
    values : (k,)
        Squared singular values of F, descending.
    directions : (m, k)
        T, with T' K_ZZ T = I.

    Notes
    -----
    O(m^3) time, and O(m^2) for a row.
    """
    eigenvalues, vectors = leading_eigenpairs(gram, len(gram), "exact", rng)
    whitening = vectors / np.sqrt(eigenvalues)
    feature_gram = np.zeros((len(eigenvalues), len(eigenvalues)))
    for block in columns:
        features = matmul(block, whitening)
        feature_gram += matmul(features.T, features)
    eigenvalues, vectors = leading_eigenpairs(feature_gram, rank, eigensolver, rng)
    return eigenvalues, matmul(whitening, vectors)


def _randomized_eigenpairs(
    gram: np.ndarray, rank: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenpairs of Q Q' gram Q Q', ascending, with an orthonormal basis Q of the sketch."""
    sketch = matmul(gram, rng.standard_normal((len(gram), rank + _OVERSAMPLING)))
    for _ in range(_POWER_ITERATIONS):
        sketch = matmul(gram, np.linalg.qr(sketch)[0])
    Q = np.linalg.qr(sketch)[0]
    eigenvalues, vectors = scipy.linalg.eigh(matmul(matmul(Q.T, gram), Q))
    return eigenvalues, matmul(Q, vectors)
