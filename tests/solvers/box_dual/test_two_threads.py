"""A second thread changes the time of a solve, and nothing else."""

import threading
import time

import numba
import numpy as np
import pytest

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers import solve_box_dual
from kbench.solvers.box_dual.row_cache import RowCache
from kbench.solvers.small import GaussianRows, StepLimits, solve_each
from kbench.trace import Deadline, Trace

pytestmark = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS == 1, reason="numba may use one thread here"
)


@pytest.fixture(autouse=True)
def threads_afterwards():
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


def helpers_s():
    """CPU seconds of all helper threads so far."""
    return sum(
        time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.name == "kbench helper"
    )


def features(kind, n):
    rng = np.random.default_rng(0)
    if kind == "bits":
        return rng.integers(0, 2, size=(n, 40)).astype(np.float32), 0.05
    X = rng.normal(size=(n, 5)).astype(np.float32)
    if kind == "groups":
        X[:, 0] += 30.0 * rng.integers(0, 5, n)
    return X, 0.5


@pytest.mark.parametrize("kind", ["features", "groups", "bits"])
@pytest.mark.parametrize("intercept", [False, True])
def test_two_threads_find_the_model_of_one_thread_bit_for_bit(kind, intercept):
    n = 6000
    X, gamma = features(kind, n)
    y = np.where(np.sin(X[:, 1]) + 0.3 * X[:, 2] > 0.1, 1.0, -1.0)

    def solve(n_threads):
        numba.set_num_threads(n_threads)
        begun = helpers_s()
        kernel = KernelMatrix(make_kernel("rbf", X, gamma=gamma), X)
        result = solve_box_dual(kernel, y, 2.0, intercept=intercept, cache_mb=20)
        # On a loaded machine helpers come late and do little. They poll for 2 ms before they sleep.
        helped_s = helpers_s() - begun
        assert helped_s > 0.0 if n_threads > 1 else helped_s < 0.01
        decisions = kernel.product(np.arange(n), result.alpha * y) + result.intercept
        return result, decisions

    one, decisions_of_one = solve(1)
    two, decisions_of_two = solve(2)
    again, _ = solve(2)
    assert two.converged
    assert two.violation <= 1e-3
    assert two.objective == pytest.approx(one.objective, rel=1e-6)
    assert two.kernel_entries == again.kernel_entries
    clear = np.abs(decisions_of_one) > 1e-2
    np.testing.assert_array_equal(decisions_of_two[clear] > 0, decisions_of_one[clear] > 0)
    np.testing.assert_array_equal(two.alpha, one.alpha)
    np.testing.assert_array_equal(two.alpha, again.alpha)
    np.testing.assert_array_equal(two.gradient, again.gradient)
    assert two.intercept == again.intercept


@pytest.mark.parametrize("intercept", [False, True])
def test_a_small_cache_for_groups_of_a_dear_kernel_is_the_same_for_two_threads(intercept):
    # Values of 120 features cost more than storing them; fewer rows fit than a working set has.
    rng, n = np.random.default_rng(0), 4200
    X = rng.normal(size=(n, 120)).astype(np.float32)
    X[:, 0] += 60.0 * (np.arange(n) % 3)
    y = np.where(np.sin(X[:, 1]) + 0.3 * X[:, 2] > 0.1, 1.0, -1.0)
    results = []
    for n_threads in (1, 2):
        numba.set_num_threads(n_threads)
        kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.01), X)
        results.append(solve_box_dual(kernel, y, 2.0, intercept=intercept, cache_mb=3))
    one, two = results
    assert one.n_groups == 3
    assert two.kernel_entries == one.kernel_entries
    np.testing.assert_array_equal(two.alpha, one.alpha)
    np.testing.assert_array_equal(two.gradient, one.gradient)


def test_the_small_engine_finds_the_same_model_with_two_threads():
    X, gamma = features("features", 600)
    y = np.sin(X[:, 1:2].T) * np.array([[1.0], [-1.0]])
    z = np.where(y > 0.1, 1.0, -1.0)
    coefs = []
    for n_threads in (1, 2):
        numba.set_num_threads(n_threads)
        rows = GaussianRows(X, gamma)
        limits = StepLimits(1e-6, -1, Deadline(None, Trace()), Trace())
        lower, upper = np.minimum(0.0, 5.0 * z), np.maximum(0.0, 5.0 * z)
        coefs.append(solve_each(rows, z, lower, upper, limits).coef)
    np.testing.assert_array_equal(coefs[1], coefs[0])


def test_stored_rows_and_gram_matrices_do_not_depend_on_the_number_of_threads():
    X, gamma = features("features", 4000)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=gamma), X)
    rows, coef = np.arange(500), np.random.default_rng(1).normal(size=500)
    found = []
    for n_threads in (1, 2):
        numba.set_num_threads(n_threads)
        cache = RowCache(kernel, 100.0, 1)
        cache.lay_out(np.arange(4000), 4000)
        products = [cache.product(rows, coef) for _ in range(2)]
        fresh = RowCache(kernel, 0.0, 2)
        fresh.lay_out(np.arange(4000), 4000)
        found.append((*products, fresh.gram(np.arange(1000))))
    for of_one, of_two in zip(*found, strict=True):
        np.testing.assert_array_equal(of_two, of_one)


def test_a_stored_matrix_gives_the_same_model_for_two_threads():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2400, 10)), np.where(rng.random(2400) < 0.5, -1.0, 1.0)
    found = []
    for n_threads in (1, 2):
        numba.set_num_threads(n_threads)
        matrix = KernelMatrix(make_kernel("rbf", X, gamma=0.1), X)
        found.append(solve_box_dual(matrix, y, 100.0, intercept=True))
    assert np.count_nonzero((found[0].alpha > 0.0) & (found[0].alpha < 100.0)) > 1024
    np.testing.assert_array_equal(found[1].alpha, found[0].alpha)
