"""Both engines at bounds, kernel values and weights many orders of magnitude from 1.

A problem with K and C is that with s K and C / s, whose coefficients are divided by s; powers of
two round nothing. And a bound that no coefficient meets does not matter, however large it is.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from dual_problem import box, coefficients, violation
from sklearn.datasets import load_iris, load_wine

from kbench.methods import KernelSVC, KernelSVR


def two_classes(load):
    X, y = load(return_X_y=True)
    return X[y < 2], np.where(y[y < 2] == 1, 1.0, -1.0)


def criterion(model, K, z, C):
    """LIBSVM's criterion, or the largest projected gradient without an intercept; float64."""
    beta = coefficients(model, len(z))
    return violation(K, z, beta, *box(z, C), coupled=model.fit_intercept)


WINE, IRIS = two_classes(load_wine), two_classes(load_iris)
CASES = {
    "wine, cubic": (WINE, {"kernel": "poly", "gamma": 1.0, "degree": 3}, lambda X: (X @ X.T) ** 3),
    "iris in 1e-7 cm": ((1e7 * IRIS[0], IRIS[1]), {"kernel": "linear"}, lambda X: X @ X.T),
    "iris in 1e8 cm": (
        (1e-8 * IRIS[0], IRIS[1]),
        {"kernel": "linear", "C": 1e18},
        lambda X: X @ X.T,
    ),
}


# Without an intercept, the cubic kernel takes millions of steps.
@pytest.mark.filterwarnings("ignore:.*stopped by max_iter")
@pytest.mark.parametrize("container", ["dense", "csr", "precomputed"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_violation_is_that_of_the_coefficients(case, container, intercept):
    (X, z), parameters, gram = CASES[case]
    K, C = gram(X), parameters.get("C", 1.0)
    rows = {"dense": X, "csr": sp.csr_matrix(X), "precomputed": K}[container]
    if container == "precomputed":
        parameters = {"kernel": "precomputed", "C": C}
    model = KernelSVC(fit_intercept=intercept, max_iter=500_000, **parameters).fit(rows, z)
    true = criterion(model, K, z, C)
    # Without an intercept the reported number is half of the criterion's difference or less.
    assert true <= 2.0 * model.violation_ + 1e-4
    assert model.converged_ == (model.violation_ <= model.tol)
    if intercept:
        assert model.converged_
        assert model.score(rows, z) == 1.0
        size = np.abs(model.dual_coef_).sum()
        assert abs(model.dual_coef_.sum()) <= 1e-12 * size


def separable(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    f = X[:, 0] * X[:, 1] + 0.3 * X[:, 2]
    return X, f, np.where(f > 0, 1, -1)


# 400 points: the small-problem solver; 2,300 and 3,200: the large one.
@pytest.mark.parametrize("C", [1e15, 1e30])
@pytest.mark.parametrize("n", [400, 2300])
def test_a_bound_that_nothing_meets_does_not_matter(n, C):
    X, _, y = separable(n)
    reference = KernelSVC(C=1e12).fit(X, y)
    assert np.abs(reference.dual_coef_).max() < 1e11
    model = KernelSVC(C=C).fit(X, y)
    assert model.converged_
    assert abs(model.dual_coef_.sum()) <= 1e-12 * np.abs(model.dual_coef_).sum()
    np.testing.assert_allclose(
        model.decision_function(X), reference.decision_function(X), atol=5e-3
    )
    weighted = KernelSVC(C=1.0).fit(X, y, sample_weight=np.full(n, C))
    assert np.array_equal(weighted.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("C", [1e15, 1e30])
def test_a_regression_with_a_bound_that_nothing_meets(C):
    X, f, _ = separable(400)
    model = KernelSVR(C=C).fit(X, f)
    assert model.converged_
    assert np.abs(model.predict(X) - f).max() <= 0.1 + 2e-3
    assert abs(model.dual_coef_.sum()) <= 1e-12 * np.abs(model.dual_coef_).sum()


@pytest.mark.parametrize("power", [-40, 40])
@pytest.mark.parametrize("n", [300, 2300])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_kernel_times_a_power_of_two_is_the_bound_divided_by_it(n, power, intercept):
    X, _, y = separable(n)
    K, s = X @ X.T + np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)), 2.0**power
    parameters = {"kernel": "precomputed", "fit_intercept": intercept}
    one = KernelSVC(C=2.0, **parameters).fit(K, y)
    other = KernelSVC(C=2.0 / s, **parameters).fit(s * K, y)
    assert np.array_equal(one.dual_coef_, s * other.dual_coef_)
    assert one.violation_ == pytest.approx(other.violation_, abs=1e-9)
