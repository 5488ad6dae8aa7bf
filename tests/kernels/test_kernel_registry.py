"""Every kernel that has a name: the list is the table of kernels, so a new one is tested too."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.approximation import BKA, HSSMatrix, Nystrom, RandomFourierFeatures
from kbench.errors import ModelError
from kbench.kernels import KERNELS, KernelMatrix, expand, make_kernel
from kbench.kernels.constraints import KernelName, kernel_constraints
from kbench.kernels.kernel import GAMMA, Kernel, parameters
from kbench.kernels.registry import formula, kernel_names, registered, table
from kbench.kernels.spectrum import IsotropicSpectrum
from kbench.methods import ApproximateRidge, KernelRidge
from kbench.prediction.encoding import decode, encode

ROOT = Path(__file__).parents[2]
OF_ROWS = kernel_names("of_rows")
SPECTRAL = kernel_names("spectrum")
# The root of a rounded squared distance has half of its digits.
ERROR = {"matern12": 1e-7}
FORMS = {"dense": lambda X: X, "csr": sp.csr_array, "wide csr": lambda X: wide(X)}


def points(n, d, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[np.abs(X) < 0.5] = 0.0
    return X.astype(dtype)


def wide(X):
    """The rows in every 500th of many columns, too many for a dense copy."""
    X = sp.coo_array(X)
    shape = (X.shape[0], 500 * X.shape[1])
    return sp.csr_array((X.data, (X.coords[0], 500 * X.coords[1])), shape=shape)


def make(name, X, gamma=0.3):
    return make_kernel(name, X, gamma=gamma, degree=3, coef0=0.7)


def naive(kernel, A, B):
    return np.array([[kernel.naive(a, b) for b in B] for a in A])


def test_the_table_is_what_the_folder_holds():
    from kbench.kernels import functions

    files = {path.stem for path in Path(functions.__file__).parent.glob("*.py")}
    modules = {kernel.__module__.rpartition(".")[2] for kernel in KERNELS.values()}
    assert files - {"__init__", "callable"} == modules
    for name, kernel in KERNELS.items():
        assert kernel.name == name
        assert formula(name)
        assert name in table()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OF_ROWS)
def test_fast_values_are_those_of_the_formula(name, form, dtype):
    X, Z = points(60, 7, dtype=dtype), points(20, 7, 1, dtype)
    X[:, 2], X[:, 6] = 1.0, 0.0  # constant in the training rows, and not in others
    kernel = make(name, X)
    K = KernelMatrix(kernel, FORMS[form](X), dtype)
    expected = naive(kernel, X.astype(float), X.astype(float))
    eps = np.finfo(dtype).eps
    scale = np.abs(expected).max()
    error = max(60.0 * eps * scale, ERROR.get(name, 0.0))
    if form == "wide csr":
        error = max(error, 1e-5 * scale if dtype == np.float32 else 1e-13)
    np.testing.assert_allclose(K.block(np.arange(60)), expected, rtol=0, atol=error)
    rows, columns = np.array([5, 0, 59, 5]), np.arange(3, 50)
    part = K.block(rows, K.points(columns))
    np.testing.assert_allclose(part, expected[np.ix_(rows, columns)], rtol=0, atol=error)
    assert K.n_entries == 60 * 60 + part.size
    np.testing.assert_allclose(K.diagonal(), expected.diagonal(), rtol=60 * eps)
    coef = np.random.default_rng(2).normal(size=(60, 1))
    wanted = naive(kernel, Z.astype(float), X.astype(float))
    scale = np.abs(wanted).max()
    error = max(error, 60.0 * eps * scale)
    for rows in (FORMS[form](Z), *([Z, sp.csr_array(Z)] if form != "wide csr" else [])):
        new = K.kernel.prepare(rows, K.dtype)
        values = expand(K.kernel, new, K.points(slice(None)), np.eye(60), K.dtype)
        np.testing.assert_allclose(values, wanted, rtol=0, atol=error)
        total = expand(K.kernel, new, K.points(slice(None)), coef, K.dtype)
        np.testing.assert_allclose(total, wanted @ coef, rtol=0, atol=error * np.abs(coef).sum())


@pytest.mark.parametrize("name", OF_ROWS)
def test_float32_values_are_as_precise_as_stated(name):
    X = points(200, 30).astype(np.float32)
    K = KernelMatrix(make(name, X, 0.05), X)
    exact = K.astype(np.float64).block(np.arange(200))
    assert np.abs(K.block(np.arange(200)) - exact).max() <= K.entry_error


@pytest.mark.parametrize("name", [name for name in OF_ROWS if KERNELS[name].unit_diagonal])
def test_float64_values_within_distant_groups_are_those_of_the_formula(name):
    X = points(60, 7)
    X[::2, 0] += 1e8
    kernel = make(name, X)
    values = KernelMatrix(kernel, X, np.float64).block(np.arange(60))
    np.testing.assert_allclose(values, naive(kernel, X, X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", OF_ROWS)
def test_two_valued_columns_are_as_good_as_features(name):
    rng = np.random.default_rng(0)
    X = np.hstack([rng.integers(0, 2, (50, 40)), rng.normal(size=(50, 3)), np.ones((50, 1))])
    Z = X[:10] + 0.0
    Z[0, 5], Z[1, -1] = 0.5, 3.0  # a third value, and another value of a constant column
    kernel = make(name, X, 0.05)
    K = KernelMatrix(kernel, X, np.float64)
    for rows in (Z[2:], Z):
        values = expand(
            K.kernel, K.kernel.prepare(rows, K.dtype), K.centres(np.arange(50)), np.eye(50), K.dtype
        )
        expected = naive(kernel, rows, X)
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=ERROR.get(name, 1e-13))


@given(n=st.integers(1, 25), d=st.integers(1, 6), gamma=st.floats(1e-3, 1e2), seed=st.integers(0))
@settings(max_examples=20)
@pytest.mark.parametrize("name", OF_ROWS)
def test_matrices_are_symmetric_and_positive_semidefinite(name, n, d, gamma, seed):
    X = np.random.default_rng(seed).normal(size=(n, d))
    K = KernelMatrix(make(name, X, gamma), X, np.float64)
    gram = K.block(np.arange(n))
    error = 1e-7 if name in ERROR else 1e-12 * np.abs(gram).max()
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=error)
    if KERNELS[name].positive_semidefinite:
        assert np.linalg.eigvalsh((gram + gram.T) / 2)[0] >= -n * error
    if KERNELS[name].unit_diagonal:
        np.testing.assert_array_equal(K.diagonal(), 1.0)
        assert gram.min() >= 0.0
        assert gram.max() <= 1.0 + error


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernels_are_equal_by_their_parameters(name):
    X = points(30, 4)
    one, same = make(name, X), make(name, X)
    assert one == same
    assert hash(one) == hash(same)
    # What `bind` finds out about the rows does not make another function.
    if KERNELS[name].of_rows:
        assert one.bind(X) == same.bind(X[:10])
    if "gamma" in parameters(KERNELS[name]):
        assert one != make(name, X, 0.31)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OF_ROWS)
def test_far_values_fall_with_the_distance_and_never_rise(name, form):
    if not KERNELS[name].unit_diagonal:
        pytest.skip("it does not fall with the distance")
    if name in ERROR:
        pytest.skip("its distances are products of matrices, which lose digits")
    X = np.r_[np.zeros((1, 3)), np.outer(np.geomspace(1e-3, 1e7, 300), [1.0, 0.5, 0.25])]
    for dtype in (np.float32, np.float64):
        K = KernelMatrix(make(name, X, 1.0), FORMS[form](X), dtype)
        values = K.block(np.array([0]))[0]
        assert np.all(np.diff(values) <= 2 * np.finfo(dtype).eps * values[1:])
        assert values[-1] > 0.0


@pytest.mark.parametrize("name", kernel_names("of_rows", "unit_diagonal"))
def test_automatic_gamma_makes_the_kernel_independent_of_the_unit(name):
    X = points(40, 5)
    if name == "laplacian":
        pytest.skip("its 1 / (d Var(X)) is scikit-learn's")
    blocks = [
        KernelMatrix(make_kernel(name, rows), rows, np.float64).block(np.arange(40))
        for rows in (X, 1000.0 * X)
    ]
    np.testing.assert_allclose(*blocks, atol=1e-7)
    power = KERNELS[name].gamma_power
    auto = make_kernel(name, X, gamma="auto").gamma
    assert auto == pytest.approx(5.0 ** (-power / 2))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OF_ROWS)
def test_stored_matrices_come_back_bit_for_bit(name, form):
    X = FORMS[form](points(30, 4))
    K = KernelMatrix(make(name, X), X, np.float32)
    block = K.block(np.arange(30))
    tree, arrays = encode([K, K.kernel])
    twin, kernel = decode(json.loads(json.dumps(tree)), arrays)
    assert kernel == K.kernel
    np.testing.assert_array_equal(twin.block(np.arange(30)), block)


HOSTILE = ["1", None, math.nan, math.inf, -math.inf, [], True]


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_stored_parameters_out_of_range_are_refused(name):
    X = points(30, 4)
    kernel = make(name, X).bind(X) if KERNELS[name].of_rows else make(name, X)
    for parameter, values in parameters(type(kernel)).items():
        low = [] if values.low is None else [values.low - 1.0, *([values.low] * values.open)]
        for value in [*HOSTILE[:-1], *low, *([0.5, 1 << 70] if values.whole else [])]:
            tree, arrays = encode(kernel)
            tree["state"][parameter] = encode(value)[0]
            with pytest.raises(ModelError, match="is inconsistent"):
                decode(tree, arrays)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OF_ROWS)
def test_stored_points_of_another_shape_or_dtype_are_refused(name, form):
    X = FORMS[form](points(30, 4))
    K = KernelMatrix(make(name, X), X, np.float32)
    K.block(np.arange(2))
    tree, arrays = encode(K)
    prepared = re.findall(r'"array": "(\w+)"', json.dumps(tree["state"]["_prepared"]))
    for array in prepared:
        for change in (lambda a: a[..., :-1], lambda a: a.astype(np.int16), lambda a: a[None]):
            with pytest.raises((ModelError, ValueError)):
                decode(tree, {**arrays, array: np.ascontiguousarray(change(arrays[array]))})


@pytest.mark.parametrize("sampling", ["independent", "orthogonal", "quasi"])
@pytest.mark.parametrize("name", SPECTRAL)
def test_the_mean_of_random_features_is_the_kernel(name, sampling):
    X = points(12, 3)
    spectrum = KERNELS[name].spectrum
    if sampling == "orthogonal" and not isinstance(spectrum, IsotropicSpectrum):
        pytest.skip("only isotropic spectra")
    kernel = make(name, X, 0.4)
    D = 40_000
    Z = RandomFourierFeatures(
        D, kernel=name, gamma=0.4, sampling=sampling, form="cos_sin", random_state=0
    ).fit_transform(X)
    # A cosine has a variance of at most 1/2, and 5 standard deviations cover 78 pairs.
    error = 5.0 * math.sqrt(0.5 / (D / 2))
    np.testing.assert_allclose(Z @ Z.T, naive(kernel, X, X), atol=error)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("name", kernel_names("of_rows", "positive_semidefinite"))
def test_ridge_regression_solves_the_system_of_the_formula(name, form):
    X, Z = points(60, 3), points(20, 3, 1)
    y = np.sin(X[:, 0])
    kernel = make(name, X)
    coef = np.linalg.solve(naive(kernel, X, X) + 0.1 * np.eye(60), y)
    expected = naive(kernel, Z, X) @ coef
    given = {"kernel": name, "gamma": 0.3, "degree": 3, "coef0": 0.7}
    # Approximations that are exact with all rows as landmarks, or with one block.
    everything = {"landmarks": "uniform", "random_state": 0}
    models = [
        KernelRidge(alpha=0.1, **given),
        ApproximateRidge(Nystrom(60, **everything, **given), alpha=0.1),
        ApproximateRidge(BKA(1, **given, dtype="float64"), alpha=0.1),
        ApproximateRidge(HSSMatrix(rel_tol=1e-8, **given), alpha=0.1),
    ]
    # The matrix of a polynomial has a few large eigenvalues only.
    scale = np.abs(expected).max()
    for model in models:
        found = model.fit(FORMS[form](X), y).predict(FORMS[form](Z))
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-3 * scale)


def test_estimators_take_the_kernels_that_can_do_what_they_need():
    constraints = kernel_constraints("of_rows", "positive_semidefinite", function=True)
    (names, function) = constraints["kernel"]
    assert function is callable
    assert names.options == set(kernel_names("of_rows", "positive_semidefinite"))
    assert "sigmoid" not in names.options
    assert "computed from rows and positive semidefinite" in str(names)
    assert set(constraints) == {"kernel", "gamma", "degree", "coef0"}
    assert set(kernel_constraints("exponential")) == {"kernel", "gamma"}


def test_every_parameter_of_an_estimator_that_names_kernels_asks_the_table():
    """A constraint on `kernel` that lists names itself would miss new kernels."""
    import kbench.approximation
    import kbench.methods

    for package in (kbench.methods, kbench.approximation):
        for name in package.__all__:
            estimator = getattr(package, name)
            for constraint in getattr(estimator, "_parameter_constraints", {}).get("kernel", []):
                names = getattr(constraint, "options", None)
                ours = not estimator.__module__.startswith("kbench.methods.external")
                if ours and names and "rbf" in names and not isinstance(constraint, KernelName):
                    # Seeded features have kinds of their own besides those with a spectrum.
                    assert names >= set(kernel_names("spectrum")), name


def test_no_config_lists_kernels():
    for path in sorted((ROOT / "configs" / "method").glob("*.yaml")):
        for line in re.findall(r"^kernel:.*$", path.read_text(), re.M):
            comment = line.partition("#")[2]
            named = [name for name in KERNELS if re.search(rf"\b{name}\b", comment)]
            assert not named or path.stem in ("rfm", "doubly_sgd", "doubly_sgd_regressor"), path


def test_a_name_that_is_missing_or_taken_is_refused():
    with pytest.raises(TypeError, match="should be a name of its own"):
        registered(type("Nameless", (Kernel,), {}))
    with pytest.raises(TypeError, match="name is 'rbf'"):
        registered(type("Taken", (Kernel,), {"name": "rbf"}))
    with pytest.raises(TypeError, match="dataclass"):
        registered(type("Plain", (Kernel,), {"name": "no dataclass"}))
    assert "no dataclass" not in KERNELS
    with pytest.raises(ValueError, match="kernel is 'rfb', should be one of"):
        make_kernel("rfb", points(3, 2))
    assert parameters(KERNELS["rbf"]) == {"gamma": GAMMA}


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("coef0", [0.0, 0.7])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("name", OF_ROWS)
def test_inner_products_of_an_explicit_map_are_the_kernels_values(name, degree, coef0, form):
    X = points(12, 4)
    kernel = make_kernel(name, X, gamma=0.3, degree=degree, coef0=coef0)
    if math.isinf(kernel.rank(4)):
        with pytest.raises(NotImplementedError, match="no explicit map"):
            kernel.explicit_map(X)
        return
    V = kernel.explicit_map(FORMS[form](X))
    assert V.shape == (12, kernel.rank(4))
    assert V.dtype == np.float64
    assert np.allclose(V @ V.T, naive(kernel, X, X), rtol=1e-12, atol=1e-12)


def test_kernels_of_finite_rank_are_the_linear_one_and_polynomials_without_a_negative_constant():
    X = points(5, 3)
    finite = {name for name in OF_ROWS if not math.isinf(make(name, X).rank(3))}
    assert finite == {"linear", "poly"}
    assert math.isinf(make_kernel("poly", X, gamma=1.0, degree=2, coef0=-0.5).rank(3))
