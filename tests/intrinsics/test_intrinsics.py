"""Hand-emitted instructions compute what the versions without them compute."""

import numpy as np
import pytest
from numba import TypingError, float64, int64, njit, none

from kbench.intrinsics import atomics, byte_products, calls, scalars, views

COUNTER = 5


@njit
def _sequence(address):
    before = atomics.add(address, 3)
    after = atomics.load(address)
    refused = atomics.replace(address, before, 100)
    replaced = atomics.replace(address, after, 100)
    atomics.pause()
    atomics.yield_core()
    seen = atomics.load(address)
    atomics.store(address, 7)
    return before, after, refused, replaced, seen


def test_atomic_operations_have_their_sequential_meaning():
    memory = np.full(1, COUNTER)
    assert _sequence(memory.ctypes.data) == (5, 8, False, True, 100)
    assert memory[0] == 7


@njit
def _scale(x, factor, start, stop):
    for i in range(start, stop):
        x[i] *= factor


_expose_scale = atomics.divided(_scale)


@njit
def _scale_in_blocks(x, factor, n, block):
    code, arguments, turn = _expose_scale((x, factor))
    atomics.call(code, arguments, turn, n, block)
    return atomics.load(turn)


@pytest.mark.parametrize(("n", "block"), [(0, 1), (10, 3), (10, 10), (10, 64)])
def test_a_divided_loop_called_by_address_is_the_loop(n, block):
    x, expected = np.arange(10.0), np.arange(10.0)
    expected[:n] *= 2.0
    # Every call ends by taking one block beyond the last iteration.
    assert _scale_in_blocks(x, 2.0, n, block) == (-(-n // block) + 1) * block
    np.testing.assert_array_equal(x, expected)


@njit
def _count_ones(words, out):
    for k in range(len(words)):
        out[k] = scalars.popcount(words[k])


def test_popcount_counts_the_ones():
    words = np.random.default_rng(0).integers(2**32, size=1000, dtype=np.uint32)
    words[:2] = 0, 2**32 - 1
    out = np.empty_like(words)
    _count_ones(words, out)
    np.testing.assert_array_equal(out, np.bitwise_count(words))


@njit
def _with_instruction(left, row, panels, first, dots):
    byte_products.vnni_dot_products(left, row, panels, first, dots)


@njit
def _chosen(left, row, panels, first, dots):
    byte_products.dot_products(left, row, panels, first, dots)


needs_vnni = pytest.mark.skipif(not byte_products.has_vnni(), reason="needs AVX-512 VNNI")


@pytest.mark.parametrize(
    "function",
    [
        byte_products.plain_dot_products,
        _chosen,
        pytest.param(_with_instruction, marks=needs_vnni),
    ],
)
@pytest.mark.parametrize("n_words", [1, 2, 13])
def test_byte_products_are_integer_products(function, n_words):
    rng = np.random.default_rng(n_words)
    left = rng.integers(256, size=(9, 4 * n_words), dtype=np.uint8)
    right = rng.integers(-128, 128, size=(64, 4 * n_words), dtype=np.int8)
    left[3], right[5] = 255, -128
    panel = np.ascontiguousarray(right.view(np.uint32).T).ravel()
    panels = np.concatenate([np.zeros(8, np.uint32), panel])
    dots = np.full(6 * 64, -1, np.int32)
    function(left.view(np.uint32), 3, panels, 8, dots)
    expected = left[3:9].astype(int) @ right.T.astype(int)
    np.testing.assert_array_equal(dots.reshape(6, 64), expected)


@njit
def _extremes(a, b):
    return scalars.larger(a, b), scalars.smaller(a, b)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32, np.float64])
def test_the_larger_and_the_smaller_of_two_numbers(kind):
    for a, b in [(2, -3), (-3, 2), (-3, -2), (4, 4)]:
        assert _extremes(kind(a), kind(b)) == (max(a, b), min(a, b))
    if issubclass(kind, np.floating):
        assert _extremes(kind(-np.inf), kind(1)) == (1, -np.inf)


def test_numbers_of_two_types_or_without_a_sign_are_not_compared():
    for a, b in [(1, 1.0), (np.uint32(1), np.uint32(2))]:
        with pytest.raises(TypingError):
            _extremes(a, b)


@njit
def _bits_and_back(x):
    return scalars.bits_of(x), scalars.with_bits(scalars.bits_of(x))


def test_bits_of_a_float32_are_those_of_its_view():
    for x in np.array([0.0, -0.0, 1.5, -np.inf, 1e-40], np.float32):
        bits, back = _bits_and_back(x)
        assert bits == x.view(np.int32)
        assert np.float32(back).tobytes() == x.tobytes()


@njit
def _with_64_bits(x):
    return scalars.with_64_bits(x)


def test_a_float64_has_the_bits_of_an_integer():
    for x in np.array([0.0, -0.0, 1.5, -np.inf, 1e-310]):
        assert np.float64(_with_64_bits(x.view(np.int64))).tobytes() == x.tobytes()


@njit
def _viewed(flat, start, n, m):
    matrix = views.matrix_in(flat, start, n, m)
    matrix[0, 0] = 7
    return matrix.sum(), views.between(flat, start, start + n * m).sum(), matrix[n - 1, m - 1]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_views_are_slices_and_their_reshapes(dtype):
    flat = np.arange(20).astype(dtype)
    assert _viewed(flat, 3, 2, 5) == (flat[3:13].sum(), flat[3:13].sum(), flat[12])
    assert flat[3] == 7
    assert njit(lambda values: views.between(values, 0, 1))(None) is None


@njit
def _weighted_sum(weights, values, factor, _):
    total = 0.0
    for k in range(len(weights)):
        total += weights[k] * values[k, 0]
    return factor * total


_TYPES = (float64[::1], float64[:, ::1], int64, none)
_called = calls.calling(float64, _TYPES)


@njit
def _call(address, *arguments):
    return _called(address, arguments)


def test_a_function_that_is_called_by_its_address_gives_its_result():
    weights, values = np.arange(4.0), np.arange(12.0).reshape(4, 3)
    address = calls.address_of(_weighted_sum, _TYPES)
    arguments = weights, values, 2, None
    assert _call(address, *arguments) == _weighted_sum(*arguments) == 2.0 * weights @ values[:, 0]
    with pytest.raises(TypingError):
        _call(address, weights, values, 2.0, None)
