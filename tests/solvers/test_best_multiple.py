"""The model of a stopped solver against searches over all multiples and intercepts."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.solvers.best_multiple import MULTIPLES, least_loss_intercept, settle
from kbench.solvers.ridge.cg import solve_cg


def loss(e, lower, upper, epsilon):
    """max {x e - epsilon |x| : lower <= x <= upper}, which is attained at lower, 0 or upper."""
    values = [x * e - epsilon * np.abs(x) for x in (lower, 0.0 * lower, upper)]
    return float(np.max(values, axis=0).sum())


def problem(seed, n, epsilon):
    rng = np.random.default_rng(seed)
    upper = rng.exponential(size=n) * (rng.random(n) < 0.8)
    lower = -rng.exponential(size=n) * (rng.random(n) < 0.8)
    X = rng.standard_t(1.5, size=(n, 3))
    K = (1.0 + X @ X.T) ** 2
    beta = rng.uniform(lower, upper)
    return K, beta, rng.standard_t(1.5, size=n), lower, upper


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([0.0, 0.3]))
def test_the_intercept_has_the_least_loss_of_all_breakpoints(seed, n, epsilon):
    _, beta, e, lower, upper = problem(seed, n, epsilon)
    total = float(beta.sum())

    def value(c):
        return loss(e - c, lower, upper, epsilon) + total * c

    # The loss is linear between these places, and bounded because the sum of beta is in between.
    best = min(value(c) for c in np.concatenate([e - epsilon, e + epsilon]))
    found = value(least_loss_intercept(e, lower, upper, epsilon, total=total))
    assert found <= best + 1e-9 * max(1.0, abs(best))


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_a_stopped_model_is_the_best_multiple_and_never_worse_than_a_constant(
    seed, coupled, epsilon
):
    K, beta, z, lower, upper = problem(seed, 10, epsilon)
    if coupled:
        lower, upper = np.minimum(lower, -1.0), np.maximum(upper, 1.0)
        beta = np.clip(beta, -0.5, 0.5)
        beta -= beta.mean()

    def primal(t, c):
        e = z - t * (K @ beta)
        return 0.5 * t * t * beta @ K @ beta + loss(e - c, lower, upper, epsilon)

    end = settle(
        beta, z - K @ beta, z, lower, upper, epsilon=epsilon, coupled=coupled, intercept=0.25
    )
    assert end.primal == pytest.approx(primal(end.multiple, end.intercept))
    places = np.concatenate(
        [z - t * (K @ beta) + s for t in MULTIPLES for s in (-epsilon, epsilon)]
    )
    intercepts = places if coupled else [0.25]
    best = min(primal(t, c) for t in MULTIPLES for c in intercepts)
    assert end.primal <= best + 1e-9 * max(1.0, abs(best))


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
def test_a_stopped_ridge_has_at_most_the_error_of_zero(steps):
    rng = np.random.default_rng(steps)
    X, alpha = rng.standard_t(1.5, size=(60, 3)), 1e-3
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    Y = rng.standard_t(1.5, size=(60, 2))

    def error(A):
        return ((Y - K @ A) ** 2).sum(axis=0) + alpha * (A * (K @ A)).sum(axis=0)

    def product(V):
        return K @ V + alpha * V

    plain = solve_cg(product, Y, tol=1e-12, max_iter=steps).x
    shrunk = solve_cg(product, Y, tol=1e-12, max_iter=steps, alpha=alpha).x
    for j in range(2):
        best = scipy.optimize.minimize_scalar(lambda t, j=j: error(t * plain)[j]).fun
        assert error(shrunk)[j] <= best * (1.0 + 1e-6)
    assert (error(shrunk) <= error(0.0 * shrunk)).all()
