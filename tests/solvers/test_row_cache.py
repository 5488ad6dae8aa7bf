"""The row cache is the matrix, whatever it keeps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers.row_cache import RowCache


@given(seed=st.integers(0, 1000), slots=st.integers(0, 60), min_uses=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
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


@pytest.mark.parametrize(("h", "q"), [(0, 5), (12, 30), (16, 32), (33, 50), (50, 50)])
def test_a_gram_matrix_computes_nothing_twice_that_its_corner_holds(h, q):
    X = np.random.default_rng(0).normal(size=(50, 3))
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, np.float64)
    expected = kernel.block(np.arange(50))
    cache = RowCache(kernel, 0.0, 2)
    cache.lay_out(np.arange(50), 50)
    positions = np.random.default_rng(1).permutation(50)[:q]
    corner = expected[np.ix_(positions[:h], positions[:h])]
    before = kernel.n_entries
    gram = cache.gram(positions, corner)
    np.testing.assert_allclose(gram, expected[np.ix_(positions, positions)], atol=1e-14)
    assert kernel.n_entries - before == (q - h) * q


def test_squares_are_written_in_turns_and_those_without_a_corner_are_kept():
    X = np.random.default_rng(0).normal(size=(50, 3))
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, np.float64)
    expected = kernel.block(np.arange(50))
    cache = RowCache(kernel, 0.0, 2)
    cache.lay_out(np.arange(50), 50)
    kept = cache.gram(np.arange(50))
    first = cache.gram(np.arange(20), np.empty((0, 0)))
    second = cache.gram(np.arange(10, 40), first[10:, 10:])
    np.testing.assert_allclose(second, expected[10:40, 10:40], atol=1e-14)
    third = cache.gram(np.arange(30, 45), second[20:, 20:])
    np.testing.assert_allclose(third, expected[30:45, 30:45], atol=1e-14)
    assert np.shares_memory(third, first)
    np.testing.assert_allclose(kept, expected, atol=1e-14)
