"""Products of the row cache equal those of the matrix, whichever rows are stored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers.box_dual.row_cache import NEVER, RowCache, min_uses


@given(seed=st.integers(0, 1000), slots=st.integers(0, 60), min_uses=st.integers(1, 4))
@settings(max_examples=40)
def test_products_through_evictions_growth_and_new_columns(seed, slots, min_uses):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, np.float64)
    gram = kernel.block(np.arange(80))
    cache = RowCache(kernel, slots * 80 * 8 / 2**20, min_uses)
    order = rng.permutation(80)
    columns = order[:20]
    cache.lay_out(columns, 20)
    for step in range(12):
        if step == 8:
            columns = columns[::2]
            cache.lay_out(columns, len(columns))
        elif step % 3 == 2:
            new = order[len(columns) : len(columns) + 15]
            columns = np.concatenate([columns, new])
            cache.extend(new)
        rows = rng.choice(80, rng.integers(1, 40), replace=False)
        coef = rng.normal(size=len(rows))
        expected = coef @ gram[np.ix_(rows, columns)]
        np.testing.assert_allclose(cache.product(rows, coef), expected, atol=1e-12)
        inner = rng.permutation(len(columns))[:7]
        points = columns[inner]
        np.testing.assert_allclose(cache.gram(inner), gram[np.ix_(points, points)], atol=1e-12)
    assert cache.nbytes <= slots * 80 * 8


def test_a_row_is_computed_at_each_use_until_it_is_stored():
    X = np.random.default_rng(0).normal(size=(50, 3))
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, np.float64)
    cache = RowCache(kernel, 1.0, 3)
    cache.lay_out(np.arange(50), 50)
    for used, computed in enumerate([1, 2, 3, 3, 3]):
        cache.product(np.array([7]), np.ones(1))
        assert kernel.n_entries == 50 * computed, used


def test_a_gram_matrix_computes_only_what_no_stored_row_holds():
    X = np.random.default_rng(0).normal(size=(50, 3))
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, np.float64)
    cache = RowCache(kernel, 1.0, 1)
    cache.lay_out(np.arange(50)[::-1], 50)
    cache.product(np.arange(10, 20), np.ones(10))
    before = kernel.n_entries
    positions = 49 - np.arange(5, 18)
    expected = KernelMatrix(kernel.kernel, X, np.float64).block(np.arange(5, 18))[:, 5:18]
    np.testing.assert_allclose(cache.gram(positions), expected, atol=1e-14)
    assert kernel.n_entries - before == 5 * 5


@pytest.mark.parametrize(
    ("kernel", "d", "expected"),
    [
        ("linear", 3, 1),
        ("poly", 3, 1),
        ("sigmoid", 3, 1),
        ("precomputed", 50, 1),
        (np.inner, 3, 1),
        ("rbf", 3, NEVER),
        ("rbf", 400, 1),
    ],
)
def test_rows_of_unknown_or_high_cost_are_stored_at_their_first_use(kernel, d, expected):
    X = np.random.default_rng(0).normal(size=(50, d))
    X = X @ X.T if kernel == "precomputed" else X
    matrix = KernelMatrix(make_kernel(kernel, X, gamma=0.5), X)
    assert min_uses(matrix) == expected
    whole = RowCache(matrix, 1.0, min_uses(matrix)).holds_whole_rows
    assert whole == (expected == 1)
