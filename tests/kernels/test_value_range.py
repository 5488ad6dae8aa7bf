"""Kernel values beyond the range of their precision are refused, and NaN with them."""

import numpy as np
import pytest
import scipy.sparse as sp

from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.functions.callable import FunctionKernel
from kbench.kernels.functions.linear import Linear
from kbench.kernels.functions.polynomial import Polynomial
from kbench.kernels.functions.precomputed import Precomputed
from kbench.kernels.functions.sigmoid import Sigmoid
from kbench.kernels.value_range import KernelRangeError, limit

ROWS = np.random.default_rng(0).normal(size=(12, 3))


def block(kernel, X, dtype):
    return KernelMatrix(kernel, X, dtype).block(np.arange(X.shape[0]))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("kernel", "scale"),
    [(Linear(), 1e19), (Polynomial(1.0, 6), 1e7), (Sigmoid(1.0), 1e20)],
    ids=lambda value: str(value),
)
def test_large_rows_are_refused_in_float32_and_computed_in_float64(kernel, scale, container):
    X = container(scale * ROWS)
    with pytest.raises(
        KernelRangeError, match=rf"{type(kernel).__name__}.*scale the rows.*float64"
    ):
        block(kernel, X, np.float32)
    assert np.isfinite(block(kernel, X, np.float64)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e37])
def test_values_of_a_callable_are_looked_at(value):
    def function(A, B):
        return np.full((len(A), len(B)), value)

    with pytest.raises(KernelRangeError, match="function"):
        block(FunctionKernel(function), ROWS, np.float32)


def test_a_given_matrix_is_computed_in_the_precision_that_holds_it():
    gram = ROWS @ ROWS.T
    assert KernelMatrix(Precomputed(), gram, np.float32).dtype == np.float32
    large = KernelMatrix(Precomputed(), 1e39 * gram, np.float32)
    assert large.dtype == np.float64
    assert np.array_equal(large.block(np.arange(12)), 1e39 * gram)


def test_sums_of_the_largest_values_are_finite():
    for dtype in (np.float32, np.float64):
        assert np.isfinite(dtype(limit(dtype)) * dtype(32))


@pytest.mark.parametrize("scale", [1e-160, 1e160])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_a_bandwidth_beyond_the_range_of_floats_is_refused(scale, container):
    with pytest.raises(ValueError, match=r"gamma='scale' is .*: scale the rows"):
        make_kernel("rbf", container(scale * ROWS), gamma="scale")
