"""What tests of duals share: a kernel matrix, coefficients, how far they are from a solution."""

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC

from kbench.kernels import KernelMatrix, make_kernel


def matrix(X, dtype=np.float64):
    return KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, dtype)


def product_sign(n=200, d=3, seed=0):
    """Rows and classes +-1: the noisy sign of the product of the first two features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def libsvm(K, y, C):
    """The optimal value and the intercept by LIBSVM."""
    model = SVC(C=C, kernel="precomputed", tol=1e-9).fit(K, y)
    coef = coefficients(model, len(K))
    return 0.5 * coef @ K @ coef - np.abs(coef).sum(), model.intercept_[0]


def coefficients(model, n):
    """A machine's coefficients of all n rows."""
    coef = np.zeros(n)
    dual = model.dual_coef_
    coef[model.support_] = np.ravel(dual.toarray() if sp.issparse(dual) else dual)
    return coef


def box(z, C):
    """Bounds on the signed coefficients of classes z = +-1."""
    return np.minimum(0.0, z * C), np.maximum(0.0, z * C)


def violation(K, z, b, lower, upper, epsilon=0.0, *, coupled=True):
    """Of min b'Kb/2 - z'b + epsilon |b|_1 in the box: the steepest descent that the box allows.

    Along one coefficient, or, coupled by a fixed sum, along the difference of two.
    """
    e = z - K @ b
    up = (e + np.where(b >= 0.0, -epsilon, epsilon))[b < upper].max(initial=-np.inf)
    down = (e + np.where(b <= 0.0, epsilon, -epsilon))[b > lower].min(initial=np.inf)
    return max(0.0, up - down if coupled else max(up, -down))
