"""Every layout (bits, differences, sparse products) gives the naive float64 kernel values."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.kernels import KERNELS, KernelMatrix, expand, make_kernel
from kbench.kernels.origin import origin_of

POWERS = {"rbf": 2, "laplacian": 1}


def naive(name, A, B, gamma):
    """exp(-gamma sum |a - b|^power) from differences, (a, b) float64."""
    differences = np.abs(A.astype(np.float64)[:, None] - B.astype(np.float64))
    return np.exp(-gamma * (differences ** POWERS[name]).sum(axis=2))


def matrix(name, X, gamma, dtype=np.float32):
    return KernelMatrix(make_kernel(name, X, gamma=gamma), X, dtype)


def binary(n, d, seed, density=0.3):
    return (np.random.default_rng(seed).random((n, d)) < density).astype(np.float32)


@st.composite
def data(draw):
    """Rows with real, two-valued and one-valued columns in any mixture, and duplicates."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 60)), draw(st.integers(0, 40))
    spread = draw(st.sampled_from([1e-3, 1.0, 30.0]))
    offset = draw(st.sampled_from([0.0, 0.0, 5.0, 1e4]))
    real = rng.normal(size=(n, d)) * spread + offset
    bits = (rng.random((n, draw(st.integers(0, 140)))) < 0.2) * draw(st.sampled_from([1.0, 0.25]))
    levels = draw(st.sampled_from([0.0, -1.0]))
    constant = np.full((n, draw(st.integers(1, 5))), draw(st.sampled_from([0.0, 1.0, 7.5])))
    X = np.column_stack([real, bits + levels, constant])[
        :, rng.permutation(d + bits.shape[1] + constant.shape[1])
    ]
    return X[rng.integers(n, size=n)].astype(draw(st.sampled_from([np.float32, np.float64])))


@settings(max_examples=80)
@given(
    X=data(),
    gamma=st.sampled_from([1e-8, 1e-3, 0.5, 40.0, 1e6]),
    name=st.sampled_from(list(POWERS)),
)
def test_blocks_and_products_are_naive_within_the_documented_error(X, gamma, name):
    n = len(X)
    rows, columns = np.arange(n)[::-1], np.arange(0, n, 2)
    coef = np.linspace(-1.0, 2.0, len(columns))
    expected = naive(name, X, X, gamma)[np.ix_(rows, columns)]
    for sparse in (False, True):
        K = matrix(name, sp.csr_array(X) if sparse else X, gamma)
        exact = K.astype(np.float64)
        error = K.entry_error
        block = K.block(rows, K.points(columns))
        np.testing.assert_allclose(block, expected, rtol=0, atol=error)
        np.testing.assert_allclose(
            exact.block(rows, exact.points(columns)), expected, rtol=0, atol=1e-12 + 1e-8 * error
        )
        total = (error + 1e-6) * np.abs(coef).sum()
        np.testing.assert_allclose(K.product(columns, coef, rows), expected @ coef, atol=total)
        np.testing.assert_allclose(
            exact.product(columns, coef, rows), expected @ coef, atol=1e-11 + 1e-8 * total
        )
        assert K.n_entries == 4 * expected.size
        assert block.min(initial=1.0) > 0.0
        assert block.max(initial=0.0) <= 1.0


@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"precomputed"}))
def test_a_square_has_the_digits_of_a_block(name):
    X = np.abs(np.random.default_rng(0).normal(size=(300, 300))).astype(np.float32)
    K, rows = matrix(name, X, 0.01), np.random.default_rng(1).permutation(300)[:200]
    before = K.n_entries
    square, counted = K.square(rows), K.n_entries - before
    np.testing.assert_array_equal(square, K.block(rows, K.points(rows)))
    once = 1.5 < K.nanoseconds < np.inf
    assert counted == (200**2 - 72 * 128 if once else 200**2)


def test_the_layout_follows_from_the_kind_of_columns():
    rng = np.random.default_rng(0)
    real, ones = rng.normal(size=(300, 10)), binary(300, 70, 1)

    def chosen(X):
        layout = make_kernel("rbf", X, gamma=1.0).bind(X).layout
        return None if layout is None else (len(layout.features), layout.n_words)

    assert chosen(real) == (10, 0)
    assert chosen(ones) == chosen(sp.csr_array(ones)) == (0, 4)
    assert chosen(np.column_stack([real, ones])) == (10, 4)
    assert chosen(np.column_stack([real, ones[:, :3]])) == (13, 0)
    for constant, n_words in ((0.0, 4), (1.0, 4), (2.5, 2)):
        assert chosen(np.column_stack([ones[:, :64], np.full(300, constant)])) == (0, n_words)
    assert chosen(sp.csr_array(real)) == (10, 0)
    assert chosen(sp.random_array((300, 20000), density=0.002, format="csr", rng=0)) is None


def test_cancellation_does_not_grow_with_gamma():
    X = np.random.default_rng(0).random((200, 54)).astype(np.float32)
    K = matrix("rbf", X, 32.0)
    assert K.entry_error < 1e-5
    np.testing.assert_allclose(
        K.block(np.arange(200)), naive("rbf", X, X, 32.0), rtol=0, atol=K.entry_error
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", POWERS)
def test_new_rows_may_hold_other_values_than_the_training_rows(name, sparse):
    X = np.column_stack([binary(90, 30, 0), np.full(90, 2.5), np.random.default_rng(1).random(90)])
    new = np.vstack([X[:5], X[:5] + 0.5, np.random.default_rng(2).normal(size=(300, 32))])
    K = matrix(name, X, 0.1, np.float64)
    coef = np.linspace(-1.0, 1.0, 90)
    for rows in (new[:5], new):
        prepared = K.kernel.prepare(sp.csr_array(rows) if sparse else rows, K.dtype)
        expected = naive(name, rows, X, 0.1)
        values = expand(K.kernel, prepared, K.centres(np.arange(90)), coef, K.dtype)
        np.testing.assert_allclose(values, expected @ coef, atol=1e-12)
        block = np.empty(expected.shape)
        K.kernel.evaluate(prepared, K.points(np.arange(90)), block)
        np.testing.assert_allclose(block, expected, atol=1e-13)
        many = expand(K.kernel, prepared, K.centres(np.arange(90)), np.eye(90), K.dtype)
        np.testing.assert_allclose(many, expected, atol=1e-13)


@pytest.mark.parametrize("kind", ["real", "bits", "sparse"])
def test_results_do_not_depend_on_the_number_of_threads(kind):
    import numba

    X = {
        "real": lambda: np.random.default_rng(0).normal(size=(3000, 5)),
        "bits": lambda: binary(3000, 70, 0),
        "sparse": lambda: sp.random_array((3000, 9000), density=0.002, format="csr", rng=0),
    }[kind]()
    coef = np.random.default_rng(1).normal(size=1500)
    results = []
    for threads in sorted({1, numba.config.NUMBA_NUM_THREADS}):
        numba.set_num_threads(threads)
        K = matrix("rbf", X, 0.3)
        results.append((K.product(np.arange(1500), coef), K.block(np.arange(1500))))
    for product, block in results[1:]:
        np.testing.assert_array_equal(product, results[0][0])
        np.testing.assert_array_equal(block, results[0][1])


def test_read_only_points_and_rows():
    X = binary(500, 70, 0)
    X.flags.writeable = False
    K = matrix("rbf", X, 0.1)
    for array in (K._points.features, K._points.words):
        array.flags.writeable = False
    np.testing.assert_allclose(K.block(np.arange(500)), naive("rbf", X, X, 0.1), atol=1e-6)


def test_a_product_takes_the_memory_of_its_operands(peak_bytes):
    X = np.random.default_rng(0).normal(size=(20000, 8)).astype(np.float32)
    K = matrix("rbf", X, 0.3)
    peak = peak_bytes(lambda: K.product(np.arange(10000), np.ones(10000)))
    # Columns and coefficients, and sums for each row; the entries would take 800 MB.
    assert peak < 4 * X.nbytes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_power_of_two_equals_numpy(dtype):
    # One feature, one point at 0: entry j is 2^-z_j^2 for z_j = x_j sqrt(gamma log2 e).
    x = np.sqrt(np.linspace(0.0, 300.0, 4096))
    X = np.concatenate([[0.0], x])[:, None]
    block = KernelMatrix(make_kernel("rbf", X, gamma=1.0), X, np.float64).block(np.array([0]))
    np.testing.assert_allclose(block[0, 1:], np.exp(-(x**2)), rtol=1e-12)
    far = KernelMatrix(make_kernel("rbf", X, gamma=1e9), X, dtype).block(np.array([0]))
    assert far[0, -1] == (2.0**-100 if dtype == np.float32 else 2.0**-900)


def test_exponents_that_overflow_are_an_error():
    X = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(ValueError, match=r"gamma=1e\+40 is too large .* scale the features"):
        matrix("rbf", X, 1e40)


def test_degenerate_shapes():
    for X in (np.zeros((3, 2)), np.ones((1, 1)), np.zeros((4, 0))):
        K = matrix("rbf", X, 1.0)
        np.testing.assert_array_equal(K.block(np.arange(len(X))), 1.0)
        np.testing.assert_array_equal(K.product(np.arange(0), np.empty(0)), 0.0)
        assert K.block(np.empty(0, int)).shape == (0, len(X))


@pytest.mark.parametrize("gamma", [0.05, 50.0])
@pytest.mark.parametrize("name", POWERS)
def test_wide_sparse_rows_stay_sparse(name, gamma):
    X = sp.random_array((300, 1500), density=0.004, format="csr", dtype=np.float32, rng=0)
    K = matrix(name, X, gamma)
    assert K.kernel.layout is None
    rows, columns = np.arange(0, 300, 20), np.arange(300)
    coef = np.random.default_rng(0).normal(size=(300, 2))
    expected = naive(name, X.toarray()[rows], X.toarray(), gamma)
    block = K.block(rows, K.points(columns))
    np.testing.assert_allclose(block, expected, rtol=0, atol=K.entry_error)
    assert block.max() <= 1.0
    for weights in (coef, coef[:, 0]):
        values = K.product(columns, weights, rows)
        error = K.entry_error * np.abs(weights).sum()
        np.testing.assert_allclose(values, expected @ weights, rtol=0, atol=error)
    new = X.toarray()[:5] * 100.0
    prepared = K.kernel.prepare(new, K.dtype)
    values = expand(K.kernel, prepared, K.centres(columns), coef, K.dtype)
    np.testing.assert_allclose(values, naive(name, new, X.toarray(), gamma) @ coef, atol=1e-4)


@pytest.mark.parametrize("name", ["linear", "poly"])
def test_wide_sparse_inner_products(name):
    X = sp.random_array((1100, 3000), density=0.004, format="csr", rng=0)
    kernel = make_kernel(name, X, gamma=2.0, degree=2, coef0=1.0)
    inner = X.toarray() @ X.toarray().T
    expected = inner if name == "linear" else (2.0 * inner + 1.0) ** 2
    K = KernelMatrix(kernel, X, np.float64)
    np.testing.assert_allclose(K.block(np.arange(1100)), expected, rtol=1e-12, atol=1e-12)


@given(
    d=st.integers(8, 70),
    values=st.sampled_from([(0.0, 2.0), (-2.0, 0.0), (1.0, 3.0)]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40)
def test_bits_of_csr_rows_are_those_of_dense_rows(d, values, seed):
    rng = np.random.default_rng(seed)
    X = rng.choice(values, size=(50, d))
    X[:, 0] = rng.normal(size=50)
    kernel = make_kernel("rbf", X, gamma=0.1)
    dense, sparse = KernelMatrix(kernel, X), KernelMatrix(kernel, sp.csr_array(X))
    np.testing.assert_array_equal(sparse.points(slice(None)).words, dense.points(slice(None)).words)
    np.testing.assert_array_equal(sparse.block(np.arange(50)), dense.block(np.arange(50)))
    new = X[:5].copy()
    new[0, 1:] = 0.0
    new[1, 1] = 7.0
    for rows in (new[:1], new[1:2], new[2:]):
        expected, found = (
            sparse.kernel.prepare(rows_, np.float32) for rows_ in (rows, sp.csr_array(rows))
        )
        assert (expected.words is None) == (found.words is None)
        np.testing.assert_array_equal(found.features, expected.features)


def test_explicit_zeros_and_repeated_entries_of_csr_rows_change_nothing():
    dense = np.array([[0.0, 3.0, 1.0], [2.0, 0.0, 1.0]])
    odd = sp.csr_array(
        (
            np.array([1.0, 0.0, 1.0, 2.0, 2.0, 1.0]),
            np.array([2, 0, 1, 1, 0, 2]),
            np.array([0, 4, 6]),
        )
    )
    assert (odd.toarray() == dense).all()
    K = matrix("rbf", odd, 0.1, np.float64)
    np.testing.assert_allclose(K.block(np.arange(2)), naive("rbf", dense, dense, 0.1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", POWERS)
def test_kernel_values_of_new_rows_far_away_are_tiny(name, dtype):
    X = np.column_stack([binary(50, 20, 0), np.random.default_rng(1).normal(size=(50, 300))])
    X = np.column_stack([X, np.ones(50)])
    K = matrix(name, X, 1.0, dtype)
    for column in (0, 30, -1):
        new = X[:1].copy()
        new[0, column] = 1e30
        prepared = K.kernel.prepare(new, K.dtype)
        values = expand(K.kernel, prepared, K.centres(np.arange(50)), np.ones(50), K.dtype)
        assert 0.0 <= values[0] < 1e-28


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_origin_is_the_mean_unless_rows_far_away_have_moved_it(form):
    X = np.round(np.random.default_rng(0).normal(size=(500, 4)) * [1.0, 1e6, 1e-6, 0.4])
    np.testing.assert_array_equal(origin_of(form(X), X.mean(axis=0)), X.mean(axis=0))
    X[::3, 0] = 1e12
    X[9, 3] = -1e30
    moved = origin_of(form(X), X.mean(axis=0))
    np.testing.assert_array_equal(moved[1:3], X.mean(axis=0)[1:3])
    assert np.abs(moved[[0, 3]]).max() <= 3.0


@pytest.mark.parametrize("name", sorted(POWERS))
@pytest.mark.parametrize(("apart", "kept"), [(0.1, True), (30.0, False)])
def test_some_rows_keep_the_origin_of_all_where_their_features_stay_short(name, apart, kept):
    """The rows of a pair of classes need no layout of their own; a far cluster has its own mean."""
    X = np.random.default_rng(0).normal(size=(60, 40)) * 0.1
    X[30:] += apart
    whole = matrix(name, X, 0.1)
    part = whole.take(np.arange(30))
    assert (part.kernel.layout is whole.kernel.layout) == kept
    values = part.block(np.arange(30))
    np.testing.assert_allclose(values, naive(name, X[:30], X[:30], 0.1), atol=part.entry_error)
