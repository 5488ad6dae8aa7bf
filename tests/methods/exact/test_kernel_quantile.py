"""KernelQuantileRegressor: optimum conditions, a linear program, and order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import d2_pinball_score, mean_pinball_loss
from sklearn.metrics.pairwise import rbf_kernel

from kbench.methods import KernelQuantileRegressor

EXACT = {"gamma": 0.5, "tol": 1e-7, "dtype": "float64"}
QUANTILES = [0.9, 0.1, 0.5]


def wave(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + (0.2 + 0.2 * X[:, 1] ** 2) * rng.normal(size=n)


def coefficients(model, n):
    coef = np.zeros((len(model.quantiles_), n))
    coef[:, model.support_] = model.dual_coef_
    return coef


def assert_is_optimal(model, K, y, C, *, intercept=True):
    """Every condition of Karush, Kuhn and Tucker, and the gap, by naive sums."""
    coef = coefficients(model, len(y))
    primal = 0.0
    for tau, b, c in zip(model.quantiles_, coef, model.intercept_, strict=True):
        lower, upper = (tau - 1.0) * C, tau * C
        assert (lower <= b).all()
        assert (b <= upper).all()
        residual = y - K @ b - c
        rounding = 1e-14 * (upper - lower)
        assert (residual[b < upper - rounding] <= 1e-5).all()
        assert (residual[b > lower + rounding] >= -1e-5).all()
        if intercept:
            assert b.sum() == pytest.approx(0.0, abs=1e-8 * C.sum())
        primal += 0.5 * b @ K @ b + C @ np.maximum(tau * residual, (tau - 1.0) * residual)
    dual = sum(0.5 * b @ K @ b - y @ b for b in coef)
    assert model.objective_ == pytest.approx(dual, rel=1e-6, abs=1e-9)
    # A violation of 1e-7 is worth that much for each unit of C.
    rounding = 1e-6 * (1.0 + abs(dual) + C.sum())
    assert primal + dual == pytest.approx(0.0, abs=rounding)
    assert model.duality_gap_ == pytest.approx(primal + dual, abs=rounding)


# With a cache of 0.1 MB the problem is too large for the small-problem solver.
@pytest.mark.parametrize("cache_size", [1000.0, 0.1])
@pytest.mark.parametrize("C", [0.1, 20.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_solution_is_optimal(C, fit_intercept, cache_size):
    X, y = wave()
    model = KernelQuantileRegressor(
        quantile=QUANTILES, C=C, cache_size=cache_size, fit_intercept=fit_intercept, **EXACT
    ).fit(X, y)
    assert model.converged_
    K = rbf_kernel(X, gamma=0.5)
    assert_is_optimal(model, K, y, np.full(len(y), C), intercept=fit_intercept)


@settings(max_examples=25)
@given(
    n=st.integers(2, 40),
    tau=st.floats(0.01, 0.99),
    log_C=st.floats(-3.0, 3.0),
    copies=st.integers(1, 3),
    seed=st.integers(0, 2**31),
)
def test_random_problems_are_optimal(n, tau, log_C, copies, seed):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(n, 2)), copies, axis=0)
    y, weight = rng.normal(size=len(X)), rng.integers(1, 4, len(X))
    C = 10.0**log_C
    model = KernelQuantileRegressor(quantile=tau, C=C, **EXACT).fit(X, y, weight)
    assert_is_optimal(model, rbf_kernel(X, gamma=0.5), y, C * weight)


def test_copies_of_rows_share_bounds_that_are_not_symmetric():
    X, y = wave(150)
    weight = np.arange(150) % 4
    options = EXACT | {"quantile": [0.05, 0.8], "C": 5.0, "cache_size": 0.01}
    repeated = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    model = KernelQuantileRegressor(**options).fit(*repeated)
    K = rbf_kernel(repeated[0], gamma=0.5)
    assert_is_optimal(model, K, repeated[1], np.full(len(K), 5.0))
    weighted = KernelQuantileRegressor(**options).fit(X, y, sample_weight=weight)
    assert weighted.objective_ == pytest.approx(model.objective_, rel=1e-6)
    np.testing.assert_allclose(weighted.predict(X), model.predict(X), atol=1e-4)


@pytest.mark.parametrize("n", [60, 3200])
def test_a_linear_kernel_with_a_large_c_is_linear_quantile_regression(n):
    X, y = wave(n)
    tau = 0.3
    model = KernelQuantileRegressor(quantile=tau, C=1e4, kernel="linear", tol=1e-6).fit(X, y)
    rows, targets = X[:60], y[:60]
    if n == 60:
        peer = QuantileRegressor(quantile=tau, alpha=0.0).fit(rows, targets)
        found, best = (mean_pinball_loss(y, m.predict(X), alpha=tau) for m in (model, peer))
        assert best * (1.0 - 1e-12) <= found <= best * (1.0 + 1e-3)
    else:
        assert model.notes_  # by rank
    assert np.mean(y < model.predict(X) - 1e-6) <= tau <= np.mean(y <= model.predict(X) + 1e-6)


def test_without_a_function_the_intercept_is_the_quantile():
    X, y = wave(101)
    model = KernelQuantileRegressor(quantile=QUANTILES, C=1e-7, **EXACT).fit(X, y)
    expected = np.quantile(y, QUANTILES, method="inverted_cdf")
    np.testing.assert_allclose(model.intercept_, expected, atol=1e-4)


@settings(max_examples=20)
@given(order=st.permutations([0.1, 0.3, 0.5, 0.52, 0.9]), seed=st.integers(0, 1000))
def test_quantiles_do_not_cross_and_sorting_loses_nothing(order, seed):
    X, y = wave(40, seed)
    X_new, y_new = wave(300, seed + 1)
    model = KernelQuantileRegressor(quantile=order, C=300.0, gamma=3.0).fit(X, y)
    values = model.predict(X_new)
    assert (np.diff(values[:, np.argsort(order)], axis=1) >= 0.0).all()
    losses = []
    for j, tau in enumerate(order):
        alone = KernelQuantileRegressor(quantile=tau, C=300.0, gamma=3.0).fit(X, y).predict(X_new)
        assert alone.shape == (300,)
        losses.append([mean_pinball_loss(y_new, f, alpha=tau) for f in (values[:, j], alone)])
    sorted_loss, loss = np.sum(losses, axis=0)
    assert sorted_loss <= loss + 1e-4


def test_sorting_is_at_work():
    X, y = wave(40)
    model = KernelQuantileRegressor(quantile=[0.5, 0.52], C=300.0, gamma=3.0).fit(X, y)
    new = wave(300, 1)[0]
    before = rbf_kernel(new, X[model.support_], gamma=3.0) @ model.dual_coef_.T + model.intercept_
    assert (before[:, 0] > before[:, 1]).sum() > 10
    np.testing.assert_allclose(model.predict(new), np.sort(before, axis=1), atol=1e-3)


def test_the_score_is_that_of_pinball_losses():
    X, y = wave()
    weight = np.arange(200) % 3
    model = KernelQuantileRegressor(quantile=QUANTILES).fit(X, y)
    expected = [
        d2_pinball_score(y, values, sample_weight=weight, alpha=tau)
        for tau, values in zip(QUANTILES, model.predict(X).T, strict=True)
    ]
    assert model.score(X, y, weight) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("quantile", [0.0, 1, [], [0.5, 1.0], [[0.5]], [np.nan], "half"])
def test_quantiles_out_of_range_are_refused(quantile):
    X, y = wave(20)
    with pytest.raises(ValueError, match="quantile"):
        KernelQuantileRegressor(quantile=quantile).fit(X, y)
