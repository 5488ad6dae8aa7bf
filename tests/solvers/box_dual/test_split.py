"""Exact decomposition into groups: the neglected kernel values are below the promised bound."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers import solve_box_dual, solve_regression_dual
from kbench.solvers.box_dual.grouped_matrix import GroupedMatrix
from kbench.solvers.box_dual.options import SolverOptions
from kbench.solvers.box_dual.split import _gaps, _labels_between, independent_groups
from kbench.trace import Trace

# Groups already in small problems, and none combined.
SMALL_GROUPS = SolverOptions(few_points=100, smallest_group=1)


def islands(n, k, distance, seed=0):
    rng = np.random.default_rng(seed)
    island = rng.integers(0, k, n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += distance * island
    y = np.where(np.sin(X[:, 1]) + 0.3 * rng.normal(size=n) + 0.2 * island > 0.2, 1.0, -1.0)
    return X, y


def categories(n, sizes, seed=0):
    """Rows of one-hot columns for categorical features of these sizes, and of two real columns."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, n) for size in sizes]
    columns = [np.eye(size)[code] for size, code in zip(sizes, codes, strict=True)]
    X = np.hstack([*columns, rng.uniform(0, 1, (n, 2))])
    y = np.where(np.sin(6 * X[:, -1]) + 0.3 * rng.normal(size=n) + 0.2 * codes[0] > 0.4, 1.0, -1.0)
    return X, y, np.column_stack(codes)


def matrix(X, gamma, dtype=np.float64):
    return KernelMatrix(make_kernel("rbf", X, gamma=gamma), X, dtype)


@given(
    n=st.integers(1, 80), k=st.integers(1, 5), distance=st.floats(0, 40), seed=st.integers(0, 99)
)
@settings(max_examples=60)
def test_kernel_values_between_groups_are_below_the_bound(n, k, distance, seed):
    X, _ = islands(n, k, distance, seed)
    groups = independent_groups(matrix(X, 1.0), n * 10.0, 1e-4)
    label = np.zeros(n, int)
    for number, group in enumerate(groups):
        label[group] = number
    if groups:
        np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(n))
        assert all(len(group) for group in groups)
    K = np.exp(-cdist(X, X, "sqeuclidean"))
    K[label[:, None] == label] = 0
    assert K.max() * n * 10.0 <= 1e-4


@given(
    n=st.integers(2, 150),
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=8),
    # exp(-gamma R^p) is the bound at this R^p. Combinations of categories have distances from 2 on.
    reach=st.floats(0.5, 6.0),
    power=st.sampled_from([1, 2]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_the_neglected_sum_between_categories_is_below_the_bound(n, sizes, reach, power, seed):
    X, _, codes = categories(n, sizes, seed)
    bounds = np.random.default_rng(seed).uniform(0, 10, n)
    gamma = np.log(bounds.sum() / 1e-4) / reach
    kernel = make_kernel("rbf" if power == 2 else "laplacian", X, gamma=gamma)
    groups = independent_groups(KernelMatrix(kernel, X, np.float64), bounds.sum(), 1e-4)
    label = np.zeros(n, int)
    for number, group in enumerate(groups):
        label[group] = number
    K = np.exp(-gamma * cdist(X, X, "sqeuclidean" if power == 2 else "cityblock"))
    K[label[:, None] == label] = 0
    assert (K @ bounds).max() <= 1e-4
    n_combinations = len(np.unique(codes, axis=0))
    if reach < 2.0 and n_combinations**2 <= n:
        # No feature has a gap of R where R > 1, yet each combination is a group or several.
        assert len(groups) >= n_combinations > 1 or n_combinations == 1


@pytest.mark.parametrize("intercept", [False, True])
def test_groups_of_categories_have_the_solution_of_the_whole_problem(intercept):
    X, y, codes = categories(900, (3, 2))
    # R = 1.35 for C n = 4,500 and a tenth of the tolerance: more than the gap of a column.
    options = {"tol": 1e-5, "intercept": intercept, "options": SMALL_GROUPS}
    whole = solve_box_dual(matrix(X, 12.0), y, 5.0, split=False, **options)
    apart = solve_box_dual(matrix(X, 12.0), y, 5.0, **options)
    assert (whole.n_groups, apart.n_groups) == (1, len(np.unique(codes, axis=0)))
    assert apart.objective == pytest.approx(whole.objective, rel=1e-8)
    assert apart.intercept == pytest.approx(whole.intercept, abs=1e-4)
    np.testing.assert_allclose(apart.gradient, whole.gradient, atol=1e-4)
    assert apart.kernel_entries < 0.5 * whole.kernel_entries


@pytest.mark.parametrize("most", [7, 2**62])
def test_gaps_in_several_features_are_combined(most):
    places = np.stack(np.meshgrid([0.0, 9.0, 30.0], [5.0, 6.0], [1.0, -8.0]), axis=-1).reshape(
        -1, 3
    )
    kind = np.random.default_rng(0).integers(0, len(places), 400)
    X = places[kind] + np.random.default_rng(1).uniform(0, 0.5, size=(400, 3))
    label = _labels_between(X, _gaps(X, 4.0), max_labels=most)
    groups = [np.flatnonzero(label == number) for number in np.unique(label)]
    # The second feature has no gap of at least 4.
    sizes = np.unique(places[kind][:, [0, 2]], axis=0, return_counts=True)[1]
    assert sorted(map(len, groups)) == sorted(sizes)
    for group in groups:
        assert len(np.unique(places[kind[group]][:, [0, 2]], axis=0)) == 1


def test_reports_of_groups_hold_the_objective_of_the_whole_problem_after_a_warm_start():
    X, y = islands(900, 4, 20.0)
    loose = solve_box_dual(matrix(X, 1.0), y, 5.0, tol=0.3, options=SMALL_GROUPS)
    reported = []
    again = solve_box_dual(
        matrix(X, 1.0),
        y,
        5.0,
        tol=1e-6,
        alpha0=loose.alpha,
        gradient0=loose.gradient,
        gradient_error=loose.gradient_error,
        options=SMALL_GROUPS,
        trace=Trace(lambda seconds, state: reported.append(state["objective"])),
    )
    assert again.n_groups == 4
    assert len(reported) > 4
    assert max(reported) <= loose.objective * (1.0 - 1e-9)
    assert reported[-1] == again.objective


@pytest.mark.parametrize("intercept", [False, True])
def test_groups_have_the_solution_of_the_whole_problem(intercept):
    X, y = islands(900, 4, 20.0)
    options = {"tol": 1e-6, "intercept": intercept, "options": SMALL_GROUPS}
    whole = solve_box_dual(matrix(X, 1.0), y, 5.0, split=False, **options)
    parts = solve_box_dual(matrix(X, 1.0), y, 5.0, **options)
    assert (whole.n_groups, parts.n_groups) == (1, 4)
    assert parts.objective == pytest.approx(whole.objective, rel=1e-9)
    assert parts.intercept == pytest.approx(whole.intercept, abs=1e-6)
    np.testing.assert_allclose(parts.gradient, whole.gradient, atol=1e-5)
    assert parts.kernel_entries < whole.kernel_entries
    states = []
    traced = solve_box_dual(
        matrix(X, 1.0), y, 5.0, trace=Trace(lambda seconds, state: states.append(state)), **options
    )
    np.testing.assert_array_equal(traced.alpha, parts.alpha)
    assert {state["alpha"].shape for state in states} == {(900,)}
    assert states[-1]["objective"] == traced.objective
    assert states[-2]["objective"] == pytest.approx(traced.objective, rel=1e-6)
    K = np.exp(-cdist(X, X, "sqeuclidean"))
    g = y * (K @ (parts.alpha * y)) - 1 + y * parts.intercept
    miss = np.where(parts.alpha < 5.0, -g, 0), np.where(parts.alpha > 0, g, 0)
    assert np.max(miss) <= 1e-6


@pytest.mark.parametrize("least", [2, 40, 150, 10**6])
def test_small_groups_are_combined_without_dividing_them(least):
    X, _ = islands(300, 40, 30.0)
    kernel = matrix(X, 1.0)
    alone = independent_groups(kernel, 300.0, 1e-4)
    together = independent_groups(kernel, 300.0, 1e-4, least)
    if least > 300:
        assert together == []
        return
    np.testing.assert_array_equal(np.sort(np.concatenate(together)), np.arange(300))
    bundle = np.empty(300, int)
    for number, group in enumerate(together):
        bundle[group] = number
    assert all(len(set(bundle[group])) == 1 for group in alone)
    large = [group for group in alone if len(group) >= least]
    assert all(any(np.array_equal(group, other) for other in together) for group in large)
    assert len(together) <= 300 // least + 1 + len(large)
    assert all(len(group) < 2 * least for group in together) or large


@pytest.mark.parametrize("intercept", [False, True])
def test_thousands_of_groups_take_few_solves(intercept):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(6000, 40)).astype(np.float32)
    y = np.where(X[:, :3].sum(axis=1) + rng.random(6000) > 2.0, 1.0, -1.0)
    assert len(independent_groups(matrix(X, 60.0), 6000.0, 1e-5)) > 5000
    result = solve_box_dual(matrix(X, 60.0, np.float32), y, 1.0, intercept=intercept)
    assert result.converged
    assert result.n_groups <= 12
    whole = solve_box_dual(matrix(X, 60.0, np.float32), y, 1.0, intercept=intercept, split=False)
    assert result.objective == pytest.approx(whole.objective, rel=1e-5)
    assert result.kernel_entries < 0.6 * whole.kernel_entries


def test_outliers_alone_make_no_groups_of_a_problem_with_an_intercept():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(2400, 2)), 100.0 * rng.normal(size=(700, 2))])
    targets = np.sin(X[:, 0]) + rng.normal(size=len(X))
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=1.0), X)
    assert len(independent_groups(kernel, 1e4, 1e-5, 512)) > 1
    result = solve_regression_dual(kernel, targets, 1.0, epsilon=0.5, tol=1e-2)
    assert (result.n_groups, result.converged) == (1, True)


def test_a_connected_problem_has_no_groups():
    X, _ = islands(300, 1, 0.0)
    assert independent_groups(matrix(X, 1e-3), 300.0, 1e-4) == []


def test_grouped_matrix_is_the_matrix_without_values_between_groups():
    X, _ = islands(200, 3, 20.0)
    kernel = matrix(X, 1.0)
    groups = independent_groups(kernel, 1.0, 1e-9)
    grouped = GroupedMatrix(kernel, groups)
    K = np.exp(-cdist(X, X, "sqeuclidean"))
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(200)[:70], rng.permutation(200)[:90]
    coef = rng.normal(size=90)
    np.testing.assert_allclose(grouped.block(np.arange(200)), K, atol=1e-12)
    part = K[np.ix_(rows, columns)]
    np.testing.assert_allclose(grouped.block(rows, grouped.points(columns)), part, atol=1e-12)
    np.testing.assert_allclose(grouped.product(columns, coef, rows), part @ coef, atol=1e-11)
    np.testing.assert_allclose(grouped.product(columns, coef), K[:, columns] @ coef, atol=1e-11)
    assert grouped.astype(np.float32).dtype == np.float32
    assert grouped.n_entries < 200**2


@given(seed=st.integers(0, 200), power=st.sampled_from([1, 2]), d=st.integers(10, 40))
@settings(max_examples=30)
def test_bounding_boxes_separate_groups_without_a_gap_in_one_feature(seed, power, d):
    rng = np.random.default_rng(seed)
    n = 300
    side = rng.integers(0, 2, n)
    # Each feature has a gap of 1, less than the distance R at which the kernel vanishes.
    X = rng.uniform(0, 1, size=(n, d)) + 2.0 * side[:, None]
    name = "rbf" if power == 2 else "laplacian"
    kernel = KernelMatrix(make_kernel(name, X, gamma=18.0 / d), X, np.float64)
    groups = independent_groups(kernel, 1.0, np.exp(-17.0))
    assert len(groups) == 2
    for group in groups:
        assert len(np.unique(side[group])) == 1
    assert kernel.block(groups[0], kernel.points(groups[1])).max() <= np.exp(-17.0)


@pytest.mark.parametrize("intercept", [False, True])
def test_groups_solved_in_parallel_equal_groups_solved_in_turn(intercept):
    X, y = islands(900, 4, 20.0)
    results = []
    for n_threads in sorted({1, numba.config.NUMBA_NUM_THREADS}):
        numba.set_num_threads(n_threads)
        # A limit that is not met: groups in their order.
        for max_iter in (-1, 10**9):
            result = solve_box_dual(
                matrix(X, 1.0, np.float32),
                y,
                5.0,
                intercept=intercept,
                max_iter=max_iter,
                options=SMALL_GROUPS,
            )
            assert result.n_groups == 4
            results.append(result)
    for result in results[1:]:
        np.testing.assert_array_equal(result.alpha, results[0].alpha)
        assert result.n_iter == results[0].n_iter
        assert result.kernel_entries == results[0].kernel_entries
