"""Blocks of kernel matrices are what scikit-learn computes in float64, whatever the route."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise

from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.columns import take_columns
from kbench.kernels.functions.rbf import RBF

REFERENCES = {
    "rbf": lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.3),
    "laplacian": lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.3),
    "poly": lambda A, B: pairwise.polynomial_kernel(A, B, degree=5, gamma=0.3, coef0=0.7),
    "linear": pairwise.linear_kernel,
    "sigmoid": lambda A, B: pairwise.sigmoid_kernel(A, B, gamma=0.3, coef0=0.7),
    "matern12": lambda A, B: np.exp(-0.3 * cdist(A, B)),
}


def make(name, X, dtype=np.float64):
    return KernelMatrix(make_kernel(name, X, gamma=0.3, degree=5, coef0=0.7), X, dtype)


def points(n, d, seed=0, offset=0.0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[np.abs(X) < 0.5] = 0.0
    return X + offset


@pytest.mark.parametrize("name", REFERENCES)
def test_the_formula_is_scikit_learn_s(name):
    """Which test_kernel_registry.py compares all values with."""
    X, Z = points(40, 5), points(30, 5, seed=1)
    kernel = make(name, X).kernel
    found = [[kernel.naive(z, x) for x in X] for z in Z]
    np.testing.assert_allclose(found, REFERENCES[name](Z, X), rtol=1e-9, atol=1e-12)


def test_tile_boundaries_change_nothing():
    X = points(5000, 3)
    K = make("rbf", X)
    coef = np.random.default_rng(1).normal(size=5000)
    expected = REFERENCES["rbf"](X[:300], X) @ coef
    np.testing.assert_allclose(K.product(np.arange(5000), coef)[:300], expected, atol=1e-9)
    np.testing.assert_array_equal(K.block(np.arange(300)).shape, (300, 5000))


@given(
    d=st.integers(1, 60),
    scale=st.floats(0.01, 3.0),
    offset=st.floats(-1e3, 1e3),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40)
def test_float32_rbf_error_is_bounded_by_the_spread_not_the_offset(d, scale, offset, seed):
    X = points(50, d, seed) * scale + offset
    K = KernelMatrix(make_kernel("rbf", X, gamma=1.0), X, np.float32)
    spread = ((X - X.mean(axis=0)) ** 2).sum(axis=1).max()
    error = np.abs(K.block(np.arange(50)) - pairwise.rbf_kernel(X, gamma=1.0)).max()
    # An inner product of d + 2 terms, whose magnitudes add up to at most 4 gamma spread, loses
    # (d + 2) eps / 2 of that in any order; the reference loses 1e-16 of the offset squared itself.
    assert error <= 6e-8 * (8.0 + 4.0 * (d + 2) * spread) + 1e-14 * d * offset**2


def test_gamma_scale_and_auto_mean_the_same_as_in_svc():
    X = points(60, 4)
    for matrix in (X, sp.csr_array(X)):
        assert make_kernel("rbf", matrix).gamma == pytest.approx(1 / (4 * X.var()))
        assert make_kernel("rbf", matrix, gamma="auto").gamma == 0.25
    assert make_kernel("rbf", np.ones((3, 2))).gamma == 1.0


def test_precomputed_and_callable_kernels_return_the_given_values():
    X = points(40, 3)
    gram = pairwise.rbf_kernel(X)
    rows, columns = np.array([3, 1]), np.array([0, 39, 7])
    for name, data in (("precomputed", gram), (pairwise.rbf_kernel, X)):
        K = KernelMatrix(make_kernel(name, data), data, np.float64)
        block = K.block(rows, K.points(columns))
        np.testing.assert_allclose(block, gram[np.ix_(rows, columns)], rtol=1e-12)
        np.testing.assert_allclose(K.diagonal(), np.ones(40))
        part = K.take(np.array([5, 6, 7]))
        np.testing.assert_allclose(part.block(np.arange(3)), gram[5:8, 5:8], rtol=1e-12)


def test_precomputed_centres_do_not_hold_the_matrix():
    gram = pairwise.rbf_kernel(points(40, 3))
    K = KernelMatrix(make_kernel("precomputed", gram), gram)
    assert K.centres(np.arange(10)).nbytes == 80


def test_a_callable_of_a_wrong_shape_is_an_error_that_names_both_shapes():
    X = points(4, 2)
    K = KernelMatrix(make_kernel(lambda A, B: np.ones(3), X), X)
    with pytest.raises(ValueError, match=r"kernel returned shape \(3,\) for 2 and 4 rows"):
        K.block(np.arange(2))


def test_kernel_values_of_both_precisions_are_counted_together():
    K = make("rbf", points(20, 2), np.float32)
    K.block(np.arange(3))
    K.astype(np.float64).product(np.arange(2), np.ones(2))
    assert K.n_entries == 3 * 20 + 2 * 20


def test_points_are_prepared_once_and_only_when_they_are_used():
    X = np.random.default_rng(0).normal(size=(60, 4))
    prepared = []

    class Recorded(RBF):
        def prepare(self, X, dtype):
            prepared.append(len(X))
            return super().prepare(X, dtype)

    K = KernelMatrix(Recorded(gamma=0.5), X)
    np.testing.assert_array_equal(K.diagonal(), 1.0)
    part = K.take(np.arange(20))
    assert prepared == []
    for _ in range(2):
        part.block(np.arange(3))
    assert prepared == [20]
    # In another precision: few of them, until all are cheaper.
    exact = K.astype(np.float64)
    for _ in range(5):
        exact.product(np.arange(10), np.ones(10), rows=np.arange(15))
    assert prepared == [20, 15, 10, 15, 10, 15, 60]


@pytest.mark.parametrize("m", [0, 5, 3000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint32])
def test_take_columns_equals_numpy(m, dtype):
    rng = np.random.default_rng(0)
    array = rng.integers(0, 1000, (17, 400)).astype(dtype)
    array.flags.writeable = False
    indices = rng.integers(0, 400, m)
    for columns in (indices, slice(3, 3 + m)):
        taken = take_columns(array, columns)
        np.testing.assert_array_equal(taken, array[:, columns])
        assert taken.flags.c_contiguous
        assert taken.dtype == dtype
