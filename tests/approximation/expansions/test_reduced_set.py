"""Reduced sets: what is left never grows, few true centres are found again, and is nothing then."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from kbench.approximation.expansions.reduced_set import reduced_set


def expansion(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=n)


def reduce(X, coef, r, gamma=0.4, preimage="gradient", n_restarts=4):
    rng = np.random.RandomState(0)
    return reduced_set(X, coef, gamma, r, rng, preimage=preimage, n_restarts=n_restarts)


@pytest.mark.parametrize("preimage", ["gradient", "fixed_point"])
@pytest.mark.parametrize("seed", range(3))
def test_residual_is_the_distance_and_never_grows(preimage, seed):
    X, coef = expansion(seed=seed)
    found = reduce(X, coef, 12, preimage=preimage)
    assert len(found.points) == 12
    assert np.all(np.diff(found.residuals) <= 1e-7 * found.residuals[0])
    P, c = np.vstack([X, found.points]), np.concatenate([coef, -found.coef])
    distance = c @ rbf_kernel(P, gamma=0.4) @ c
    assert found.residuals[-1] == pytest.approx(distance, rel=1e-6, abs=1e-9)
    assert found.residuals[0] == pytest.approx(coef @ rbf_kernel(X, gamma=0.4) @ coef)
    assert found.residuals[-1] < 0.5 * found.residuals[0]


def test_first_point_is_a_maximum_of_the_squared_value():
    X, coef = expansion()
    z = reduce(X, coef, 1, n_restarts=20).points[0]
    value = lambda p: (rbf_kernel(p[None], X, gamma=0.4) @ coef)[0] ** 2  # noqa: E731
    rng = np.random.default_rng(0)
    assert all(value(z) >= value(z + 0.01 * rng.normal(size=3)) - 1e-9 for _ in range(50))
    assert all(value(z) >= value(x) for x in X)


@pytest.mark.parametrize("preimage", ["gradient", "fixed_point"])
def test_an_expansion_of_few_centres_far_apart_is_found_again(preimage):
    centres = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    # Each centre is written as several equal rows.
    X, coef = np.repeat(centres, 4, axis=0), np.repeat([1.0, -2.0, 0.5], 4)
    found = reduce(X, coef, 10, preimage=preimage, n_restarts=10)
    assert found.residuals[2] > 0.0
    assert found.residuals[3] < 1e-6 * found.residuals[0]
    order = np.argsort(found.coef[:3])
    np.testing.assert_allclose(found.points[order], centres[[1, 2, 0]], atol=1e-4)
    np.testing.assert_allclose(found.coef[order], [-8.0, 2.0, 4.0], rtol=1e-4)


def test_twice_as_many_points_as_vectors_leave_less_than_a_hundredth():
    X, coef = expansion(15, 2)
    found = reduce(X, coef, 30, gamma=2.0, n_restarts=8)
    assert found.residuals[-1] < 0.01 * found.residuals[0]
