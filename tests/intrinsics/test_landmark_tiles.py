"""Vector code for Gaussian landmarks against NumPy."""

import numpy as np
import pytest
from numba import njit

from kbench.intrinsics import landmark_tiles as tiles
from kbench.intrinsics.landmark_tiles import LANES

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def addresses(rows):
    return rows.ctypes.data + rows.strides[0] * np.arange(len(rows), dtype=np.int64)


def landmark_table(n_blocks, n_features):
    """(blocks, 1 + f, LANES): -width, then entries by feature."""
    table = floats(n_blocks, 1 + n_features, LANES)
    table[:, 0] = -np.abs(table[:, 0]) / n_features
    return table


def exponents(rows, table):
    """-width_j ||x - u_j||^2 in float64; (rows, 16 blocks)."""
    landmarks = table[:, 1:].transpose(0, 2, 1).reshape(-1, table.shape[1] - 1).astype(float)
    squares = ((rows[:, None].astype(float) - landmarks) ** 2).sum(axis=2)
    return table[:, 0].ravel() * squares


@njit
def _tile(shape, rows, features, table, count, at, slot):
    if shape == 0:
        tiles.rows_by_blocks(rows, features, table, count, at, slot)
    elif shape == 1:
        tiles.rows_by_1(rows, features, table, count, at, slot)
    elif shape == 2:
        tiles.row_by_blocks(rows, features, table, count, at, slot)
    else:
        tiles.row_by_1(rows, features, table, count, at, slot)


@pytest.mark.parametrize("shape", range(4))
@pytest.mark.parametrize("n_features", [1, 7, 20])
def test_exponents_of_tiles_of_all_shapes_are_the_formula_with_the_same_bits(shape, n_features):
    n_rows = tiles.ROWS if shape < 2 else 1
    n_blocks = tiles.BLOCKS if shape % 2 == 0 else 1
    rows, table = floats(n_rows, 30), landmark_table(n_blocks, n_features)
    features = np.sort(RNG.permutation(30)[:n_features]).astype(np.int32)
    places, slot = addresses(rows), n_blocks * LANES

    def run(shape, row, block):
        out = np.zeros((tiles.ROWS, tiles.BLOCKS * LANES), np.float32)
        at = places[row:]
        table_at = table[block:].ctypes.data
        _tile(shape, at.ctypes.data, features.ctypes.data, table_at, n_features,
              out.ctypes.data, slot)  # fmt: skip
        return out.ravel()[: n_rows * slot].reshape(n_rows, slot)

    found = run(shape, 0, 0)
    np.testing.assert_allclose(found, exponents(rows[:, features], table), rtol=1e-5)
    single = [
        np.concatenate([run(3, row, block)[0, :LANES] for block in range(n_blocks)])
        for row in range(n_rows)
    ]
    np.testing.assert_array_equal(found, np.array(single))


@njit
def _elementwise(name, source, target, n_blocks):
    if name == 0:
        tiles.powers(source, target, n_blocks)
    else:
        tiles.square_roots(target, n_blocks)


def test_powers_and_square_roots_are_those_of_numpy():
    numbers = -np.abs(floats(5 * LANES)) * 30
    numbers[:3] = 0.0, -99.0, -1e6
    out = np.empty_like(numbers)
    _elementwise(0, numbers.ctypes.data, out.ctypes.data, 5)
    expected = np.exp2(np.maximum(numbers.astype(float), -100.0))
    np.testing.assert_allclose(out, expected, rtol=3e-7)
    assert out[0] == 1.0
    out[:] = numbers
    _elementwise(1, 0, out.ctypes.data, 5)
    np.testing.assert_array_equal(out, np.sqrt(-numbers))


@njit
def _sums(values, origin, coef, n_blocks):
    return (
        tiles.weighted_sum(values, coef, n_blocks),
        tiles.weighted_difference(values, origin, coef, n_blocks),
    )


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
def test_weighted_sums_are_inner_products(n_blocks):
    values, origin, coef = floats(3, n_blocks * LANES)
    found = _sums(values.ctypes.data, origin.ctypes.data, coef.ctypes.data, n_blocks)
    expected = values.astype(float) @ coef, (values - origin).astype(float) @ coef
    np.testing.assert_allclose(found, expected, atol=1e-5)


@njit
def _form(values, block, coef, n_rows):
    return tiles.form_block(values, block, coef, n_rows)


def test_a_block_of_the_quadratic_form():
    values, coef = floats(LANES), floats(6, LANES)
    found = _form(values.ctypes.data, values.ctypes.data, coef.ctypes.data, 5)
    expected = (coef[0] + values[:5] @ coef[1:]).astype(float) @ values
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@njit
def _bounds(upper, distances, spans, n_landmarks, values):
    if upper:
        tiles.upper_block(distances, spans, n_landmarks, values)
    else:
        tiles.lower_block(distances, spans, n_landmarks, values)


@pytest.mark.parametrize("upper", [False, True])
def test_bounds_of_the_triangle_inequality(upper):
    distances, spans = np.abs(floats(9)), np.abs(floats(9, LANES))
    out = np.empty(LANES, np.float32)
    _bounds(upper, distances.ctypes.data, spans.ctypes.data, 9, out.ctypes.data)
    if upper:
        bound = (distances[:, None] + spans).min(axis=0)
    else:
        bound = np.abs(distances[:, None] - spans).max(axis=0)
    np.testing.assert_allclose(out, np.exp2(-(bound.astype(float) ** 2)), rtol=1e-5)


@njit
def _across(rows, n_features, points, table, values, coef, sums, n_vectors):
    slot = LANES * LANES
    for v in range(n_vectors):
        tiles.transposed(rows + 8 * LANES * v, n_features, points + 4 * LANES * n_features * v)
    if n_vectors > 1:
        tiles.kernels_of_vectors(points, table, n_features, values, slot)
    else:
        tiles.kernels_of_one_vector(points, table, n_features, values, slot)
    for v in range(n_vectors):
        tiles.weighted_sums(values + 4 * slot * v, coef, 1, sums + 4 * LANES * v)


@pytest.mark.parametrize("n_vectors", [1, tiles.VECTORS])
@pytest.mark.parametrize("n_features", [16, 23, 40])
def test_sixteen_rows_at_a_landmark(n_vectors, n_features):
    rows, table = floats(n_vectors * LANES, n_features), landmark_table(1, n_features)
    coef, places = floats(LANES), addresses(rows)
    points = np.empty((n_vectors, n_features, LANES), np.float32)
    values = np.empty((n_vectors, LANES, LANES), np.float32)
    sums = np.empty(n_vectors * LANES, np.float32)
    arrays = (places, points, table, values, coef, sums)
    at = [array.ctypes.data for array in arrays]
    _across(at[0], n_features, at[1], at[2], at[3], at[4], at[5], n_vectors)
    np.testing.assert_array_equal(
        points, rows.reshape(n_vectors, LANES, n_features).transpose(0, 2, 1)
    )
    expected = np.exp2(exponents(rows, table))
    np.testing.assert_allclose(
        values.transpose(0, 2, 1).reshape(len(rows), LANES), expected, rtol=2e-5
    )
    np.testing.assert_allclose(sums, expected @ coef, atol=1e-4)
