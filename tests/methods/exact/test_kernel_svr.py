"""KernelSVR without an intercept is an independent quadratic program."""

import numpy as np
import pytest
import scipy.optimize
from dual_problem import coefficients
from sklearn.metrics.pairwise import rbf_kernel

from kbench.methods import KernelSVR

EXACT = {"gamma": 0.5, "tol": 1e-7, "dtype": "float64"}


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_without_intercept_it_is_the_quadratic_program(epsilon):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=80)
    K = rbf_kernel(X, gamma=0.5)
    model = KernelSVR(C=2.0, epsilon=epsilon, fit_intercept=False, **EXACT).fit(X, y)

    def value(a):
        coef = a[:80] - a[80:]
        gradient = K @ coef - y
        return (
            0.5 * coef @ K @ coef - y @ coef + epsilon * a.sum(),
            np.concatenate([gradient, -gradient]) + epsilon,
        )

    options = {"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-9}
    reference = scipy.optimize.minimize(
        value, np.zeros(160), jac=True, bounds=[(0, 2.0)] * 160, method="L-BFGS-B", options=options
    )
    assert model.objective_ == pytest.approx(reference.fun, rel=1e-6)
    assert model.intercept_ == 0.0
    # Residuals inside the tube belong to a coefficient of 0, outside to one at its bound.
    coef, residual = coefficients(model, 80), y - model.predict(X)
    assert np.all(coef[np.abs(residual) < epsilon - 1e-4] == 0.0)
    outside = np.abs(residual) > epsilon + 1e-4
    np.testing.assert_array_equal(coef[outside], 2.0 * np.sign(residual[outside]))


def test_parameters_may_be_whole_numbers():
    X = np.random.default_rng(0).normal(size=(40, 2))
    options = {"epsilon": 0, "tol": 1, "C": 2, "gamma": 1}
    y = 20.0 * X[:, 0]
    whole = KernelSVR(**options).fit(X, y)
    of_floats = KernelSVR(**{name: float(value) for name, value in options.items()}).fit(X, y)
    np.testing.assert_array_equal(whole.predict(X), of_floats.predict(X))
