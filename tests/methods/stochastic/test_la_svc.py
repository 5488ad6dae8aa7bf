"""LaSVC: enough passes and the finishing reach the exact machine, with and without intercept."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from small_problems import ring

from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.functions.precomputed import Precomputed
from kbench.methods import KernelSVC, LaSVC
from kbench.solvers.incremental.lasvm import solve_online, visit_chunk

EXACT = {"gamma": 0.5, "tol": 1e-6, "dtype": "float64"}


@pytest.mark.parametrize("C", [0.5, 20.0])
def test_passes_lead_to_the_machine_without_intercept(C):
    X, y = ring(500)
    exact = KernelSVC(fit_intercept=False, C=C, **EXACT).fit(X, y)
    model = LaSVC(20, C=C, random_state=0, **EXACT).fit(X, y)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert model.intercept_ == 0.0


@pytest.mark.parametrize("C", [0.5, 20.0])
def test_passes_lead_to_libsvm_with_intercept(C):
    X, y = ring(500)
    peer = SVC(C=C, gamma=0.5, tol=1e-6).fit(X, y)
    model = LaSVC(20, C=C, fit_intercept=True, random_state=0, **EXACT).fit(X, y)
    coef = peer.dual_coef_[0]
    K = rbf_kernel(X[peer.support_], gamma=0.5)
    objective = 0.5 * coef @ K @ coef - np.abs(coef).sum()
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-4)
    assert model.dual_coef_.sum() == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
def test_one_pass_solves_the_problem_of_its_expansion(intercept):
    X, y = ring(1500)
    model = LaSVC(fit_intercept=intercept, random_state=0, **EXACT).fit(X, y)
    coef, rows = model.dual_coef_[0], model.support_
    assert (np.sign(coef) == y[rows]).all()
    assert (np.abs(coef) <= 1.0).all()
    K = rbf_kernel(X[rows], gamma=0.5)
    assert model.objective_ == pytest.approx(0.5 * coef @ K @ coef - np.abs(coef).sum(), rel=1e-9)
    residual = y[rows] * (y[rows] - K @ coef - model.intercept_)
    free = np.abs(coef) < 1.0
    assert np.abs(residual[free]).max() <= 1e-6
    assert residual[~free].min() >= -1e-6
    exact = KernelSVC(fit_intercept=False, **EXACT).fit(X, y)
    assert exact.objective_ * 0.95 >= model.objective_ >= exact.objective_ - 1e-6


def online(X, y, intercept, **options):
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, np.float64)
    rng = np.random.RandomState(0)
    return solve_online(
        kernel, y.astype(float), np.ones(len(y)), rng, intercept=intercept, epochs=3, **options
    )


@pytest.mark.parametrize("intercept", [False, True])
def test_a_small_cache_changes_the_cost_and_not_the_result(intercept):
    X, y = ring(1500)
    large, small = (online(X, y, intercept, tol=0.1, cache_mb=cache_mb) for cache_mb in (200, 0))
    # Rounding decides which of equal violators moves first, and so who stays.
    assert large.objective == pytest.approx(small.objective, rel=1e-5)
    assert large.kernel_entries < small.kernel_entries
    # Every value of a pass at most: each point against all, and a row for each step.
    assert large.kernel_entries < 3 * 1500**2 + 1500 * large.n_iter


@pytest.mark.parametrize("intercept", [False, True])
def test_finishing_costs_a_few_products_over_the_expansion(intercept):
    X, y = ring(1500)
    loose, tight = (online(X, y, intercept, tol=tol) for tol in (0.1, 1e-8))
    assert tight.violation <= 1e-8
    assert tight.n_iter > 2 * loose.n_iter
    n_kept = max(np.isfinite(result.gradient).sum() for result in (loose, tight))
    assert tight.kernel_entries - loose.kernel_entries < 4 * n_kept**2


def order_of_fit(y):
    """Seeds and visits of `random_state=0`.

    With more rows than are visited together, fit visits a seed again that was removed since.
    """
    draw = np.random.RandomState(0)
    seeds = [draw.permutation(np.flatnonzero(y == sign))[:5] for sign in (-1, 1)]
    return np.array(list(dict.fromkeys([*np.concatenate(seeds), *draw.permutation(len(y))])))


@pytest.mark.parametrize("intercept", [False, True])
def test_a_chunk_in_the_order_of_fit_takes_the_steps_of_its_visits(intercept):
    X, y = ring(250)
    # Computed values differ in the last bit by the order of the rows, which decides between equal
    # violators.
    kernel = KernelMatrix(Precomputed(), rbf_kernel(X, gamma=0.5), np.float64)
    problem = (kernel, y.astype(float), np.full(250, 5.0))
    nothing = (np.zeros(250), np.full(250, np.nan))
    chunk = visit_chunk(*problem, order_of_fit(y), *nothing, intercept=intercept)
    # With as many steps it stops before the final solve.
    fit = solve_online(
        *problem, np.random.RandomState(0), intercept=intercept, max_iter=chunk.n_iter
    )
    assert 0 < fit.n_iter == chunk.n_iter
    np.testing.assert_allclose(chunk.alpha, fit.alpha, atol=1e-12)
    in_both = np.isfinite(fit.gradient)
    np.testing.assert_array_equal(in_both, np.isfinite(chunk.gradient))
    np.testing.assert_allclose(chunk.gradient[in_both], fit.gradient[in_both], atol=1e-10)
    for name in ("objective", "violation"):
        assert getattr(chunk, name) == pytest.approx(getattr(fit, name), rel=1e-9)


def test_partial_fit_of_all_rows_in_the_order_of_fit_is_fit_without_its_final_solve():
    X, y = ring(250)
    order = order_of_fit(y)
    options = {"C": 5.0, "random_state": 0} | EXACT
    stream = LaSVC(**options).partial_fit(X[order], y[order], classes=[-1, 1])
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        visits = LaSVC(**options, max_iter=stream.n_iter_).fit(X, y)
    np.testing.assert_array_equal(np.sort(order[stream.support_]), visits.support_)
    np.testing.assert_allclose(stream.decision_function(X), visits.decision_function(X), atol=1e-8)
    for name in ("n_iter_", "objective_", "violation_", "duality_gap_"):
        assert getattr(stream, name) == pytest.approx(getattr(visits, name), rel=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_stream_of_moons_comes_within_a_point_of_fit(intercept):
    X, y = make_moons(4000, noise=0.3, random_state=0)
    options = {"C": 1.0, "gamma": 1.0, "fit_intercept": intercept, "random_state": 0}
    fit, stream = LaSVC(**options).fit(X[:2000], y[:2000]), LaSVC(**options)
    for start in range(0, 2000, 100):
        rows = slice(start, start + 100)
        stream.partial_fit(X[rows], y[rows], classes=[0, 1])
        assert stream.score(X[2000:], y[2000:]) > 0.8
    assert stream.score(X[2000:], y[2000:]) > fit.score(X[2000:], y[2000:]) - 0.01
    coef, K = stream.dual_coef_[0], rbf_kernel(stream.support_vectors_, gamma=1.0)
    assert stream.objective_ == pytest.approx(0.5 * coef @ K @ coef - np.abs(coef).sum(), rel=1e-4)
    assert coef.sum() == pytest.approx(0.0, abs=1e-9) or not intercept


@pytest.mark.parametrize("intercept", [False, True])
def test_a_stream_may_begin_with_one_class(intercept):
    X, y = ring(800)
    positive = np.flatnonzero(y == 1)[:100]
    model = LaSVC(gamma=0.5, fit_intercept=intercept)
    rest = np.array_split(np.setdiff1d(range(800), positive), 7)
    for rows in (positive[:50], positive[50:], *rest):
        model.partial_fit(X[rows], y[rows], classes=[-1, 1])
        assert np.isfinite(model.decision_function(X)).all()
    assert model.score(X, y) > 0.75


@pytest.mark.parametrize("parameters", [{"kernel": "precomputed"}, {"C": "loo"}])
def test_a_stream_refuses_what_needs_all_rows(parameters):
    X, y = ring(50)
    with pytest.raises(ValueError, match=r"needs (all )?rows"):
        LaSVC(**parameters).partial_fit(X, y, classes=[-1, 1])
