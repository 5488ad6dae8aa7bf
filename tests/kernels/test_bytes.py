"""Quantised features: the same kernel from exact integers, in every layout."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.intrinsics.byte_products import has_vnni
from kbench.kernels import KernelMatrix, expand, make_kernel
from kbench.kernels.functions.rbf import RBF
from kbench.kernels.lattice import BytePoints, Lattice
from kbench.kernels.layout import Layout, Packing

needs_instruction = pytest.mark.skipif(
    not has_vnni(), reason="numba compiles for a processor without VNNI"
)


def pixels(n, d, seed, levels=256):
    return np.random.default_rng(seed).integers(0, levels, (n, d))


def naive(A, B, gamma):
    """exp(-gamma |a - b|^2) from differences, (a, b) float64."""
    differences = A.astype(np.float64)[:, None] - B.astype(np.float64)
    return np.exp(-gamma * (differences**2).sum(axis=2))


def matrix(X, gamma, dtype=np.float32):
    return KernelMatrix(make_kernel("rbf", X, gamma=gamma), X, dtype)


def lattice_of(X):
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    columns = np.flatnonzero(low < high)
    return Lattice.of(X, columns, low[columns], high[columns])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    levels=st.integers(2, 256),
    scale=st.sampled_from([1.0, 1 / 255, 1 / 256, 0.1, 3.7e-5, 2.0**40]),
    shift=st.sampled_from([0.0, -1.0, 17.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    sparse=st.booleans(),
)
def test_integers_are_recovered_from_shifted_and_scaled_values(
    seed, levels, scale, shift, dtype, sparse
):
    rng = np.random.default_rng(seed)
    k = rng.integers(0, levels, (40, 12))
    k[:2, 0] = 0, levels - 1
    by_column = rng.integers(0, 3, 12)
    X = (((k + by_column) + shift) * scale).astype(dtype)
    found = lattice_of(X)
    points = found.pack(sp.csr_array(X) if sparse else X, np.dtype(dtype), None)
    unpacked = found.unpack(points)
    tolerance = 4.0 * np.finfo(dtype).eps * np.abs(X).max()
    np.testing.assert_allclose(unpacked.T, X[:, found.columns], rtol=0, atol=tolerance)
    digits = np.rint((unpacked.T - found.offset) / found.step).astype(np.int64)
    np.testing.assert_array_equal(points.totals, digits.sum(axis=1))
    np.testing.assert_array_equal(points.squares, (digits**2).sum(axis=1))
    assert digits.min() >= 0
    assert digits.max() <= 255
    # Steps of k, or of a multiple where that is enough.
    assert np.rint(found.step / scale) >= 1


def test_data_that_are_not_quantised_are_not_packed():
    rng = np.random.default_rng(0)
    assert lattice_of(rng.normal(size=(50, 40))) is None
    assert lattice_of(pixels(50, 40, 0, levels=400).astype(float)) is None
    # Columns with scales of their own.
    assert lattice_of(pixels(50, 40, 0) * rng.random(40)) is None
    # So far from the origin that single steps are lost.
    assert lattice_of((pixels(50, 40, 0) / 255 + 1e6).astype(np.float32)) is None
    assert lattice_of(pixels(50, 33_100, 0).astype(np.float32)) is None
    # Beside a value of 1e9 all others are less than a rounding error of float32 from 0.
    X = rng.normal(size=(50, 40)).astype(np.float32)
    X[::3, 5] = -999999999.0
    assert lattice_of(X) is None
    # A sample does not see every row: what it misses shows when they are packed.
    X = (pixels(500, 40, 0) / 255).astype(np.float32)
    X[1, 3] += 1e-3
    assert lattice_of(X).pack(X, np.dtype(np.float32), None) is None


def test_pixels_rounded_to_float32_are_bytes_in_float32_only():
    X = (pixels(60, 50, 0) / 255).astype(np.float32)
    found = lattice_of(X)
    assert found.pack(X, np.dtype(np.float32), None) is not None
    assert found.pack(X, np.dtype(np.float64), None) is None
    whole = pixels(60, 50, 0).astype(np.float32)
    assert lattice_of(whole).pack(whole, np.dtype(np.float64), None) is not None


def test_bytes_are_chosen_if_they_are_cheaper():
    def chosen(X):
        return Layout.of(X).lattice is not None

    images = pixels(80, 60, 0) / 255
    bits = pixels(80, 60, 1, levels=2)
    assert chosen(images)
    assert chosen(sp.csr_array(images))
    assert chosen(np.column_stack([images, bits]))
    assert not chosen(np.column_stack([images, bits, bits, bits, bits]))
    assert not chosen(images[:, :20])
    assert not chosen(bits)


@needs_instruction
@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 65, 4), (12, 256, 33), (50, 700, 130)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_are_exact_integers(shape, dtype):
    from kbench.kernels import byte_tiles

    a, b, d = shape
    left, right = pixels(a, d, 0), pixels(b, d, 1)
    left[0], right[-1] = 0, 255
    squared = ((left[:, None] - right) ** 2).sum(axis=2)

    def points(k):
        padded = np.zeros((len(k), -(-d // 4) * 4), np.uint8)
        padded[:, :d] = k
        words = np.ascontiguousarray(padded.view("<u4").T)
        totals, squares = k.sum(axis=1), (k**2).sum(axis=1)
        return BytePoints(words, totals.astype(np.int32), squares.astype(np.int32), None)

    # Exponents that are integers: powers of two are exact.
    unit = 1.0 if squared.max() < 2**20 else 2.0**-20
    out = np.empty((a, b), dtype)
    byte_tiles.fill(points(left), points(right), unit, out)
    floor = 100.0 if dtype == np.float32 else 900.0
    exponent = np.minimum(unit * squared.astype(dtype), floor)
    np.testing.assert_allclose(
        out, 2.0 ** -exponent.astype(np.float64), rtol=20 * np.finfo(dtype).eps
    )
    coef = np.linspace(-1.0, 1.0, a).astype(dtype)
    total = np.ones(b)
    byte_tiles.accumulate(points(left), points(right), unit, coef, total)
    np.testing.assert_allclose(total, 1.0 + coef @ out, rtol=0, atol=20 * np.finfo(dtype).eps * a)


@needs_instruction
def test_the_largest_distances_do_not_overflow():
    X = np.full((4, 33_000), 255.0, np.float32)
    X[0], X[1, ::2], X[2] = 0.0, 0.0, 77.0
    K = matrix(X, 1e-9, np.float64)
    assert isinstance(K._points, BytePoints)
    np.testing.assert_allclose(K.block(np.arange(4)), naive(X, X, 1e-9), rtol=1e-12)


@pytest.mark.parametrize("with_bytes", [pytest.param(True, marks=needs_instruction), False])
@pytest.mark.parametrize("offset", [0.0, -0.5])
def test_bytes_and_floats_are_the_same_matrix(with_bytes, offset):
    X = (pixels(300, 90, 0) / 255 + offset).astype(np.float32)
    X[:, 3], X[:, 5] = 0.25, X[0, 5]
    gamma = 0.05
    for rows in (X, sp.csr_array(X)):
        K = KernelMatrix(RBF(gamma, packing=Packing(bytes=with_bytes)), rows)
        assert isinstance(K._points, BytePoints) == with_bytes
        expected = naive(X, X, gamma)
        assert K.entry_error < 1e-5
        np.testing.assert_allclose(K.block(np.arange(300)), expected, rtol=0, atol=K.entry_error)
        coef = np.random.default_rng(1).normal(size=(300, 2))
        for weights in (coef, coef[:, 0]):
            np.testing.assert_allclose(
                K.product(np.arange(300), weights),
                expected @ weights,
                atol=K.entry_error * np.abs(coef).sum(),
            )
        exact = K.astype(np.float64).block(np.arange(300))
        np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(K.block(np.arange(300)).diagonal(), 1.0)


@needs_instruction
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_new_rows_may_be_off_the_lattice(dtype):
    X = pixels(150, 48, 0).astype(np.float64)
    X[:, 7] = 3.0
    new = pixels(40, 48, 1).astype(np.float64)
    K = matrix(X, 2e-5, dtype)
    coef = np.linspace(-1.0, 1.0, 150)
    for rows in (new, new + 0.25, new * 40.0, sp.csr_array(new - 300.0)):
        points = K.kernel.prepare(rows, K.dtype)
        values = expand(K.kernel, points, K.centres(np.arange(150)), coef, K.dtype)
        dense = rows.toarray() if sp.issparse(rows) else rows
        expected = naive(dense, X, 2e-5) @ coef
        np.testing.assert_allclose(values, expected, atol=1e-4 if dtype == np.float32 else 1e-12)


@needs_instruction
def test_a_model_of_bytes_predicts_without_the_instruction():
    X = (pixels(120, 40, 0) / 255).astype(np.float32)
    K = matrix(X, 0.1)
    coef, centres = np.linspace(-1.0, 1.0, 120), K.centres(np.arange(120))
    with_it = expand(K.kernel, K._points, centres, coef, K.dtype)
    kernel = replace(K.kernel, packing=Packing(bytes=False))
    points = kernel.prepare(X, K.dtype)
    assert not isinstance(points, BytePoints)
    np.testing.assert_allclose(expand(kernel, points, centres, coef, K.dtype), with_it, atol=1e-4)


@needs_instruction
def test_bytes_take_a_quarter_of_the_memory_of_floats():
    X = (pixels(400, 100, 0) / 255).astype(np.float32)
    K = matrix(X, 0.1)
    assert K.points(np.arange(400)).nbytes == 400 * (100 + 8)
