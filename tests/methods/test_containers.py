"""Every estimator takes the arrays that users have, and writes into none of them."""

import functools
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from all_machines import build, machines
from sklearn.base import is_classifier, is_regressor

from kbench.chunked import ChunkedRows
from kbench.methods import KernelSVC
from kbench.methods.automatic.self_tuning import SelfTuning
from kbench.methods.exact.callable_kernel import TakesAnyRows
from kbench.width_search import constants

MACHINES = list(machines())
RNG = np.random.default_rng(0)
Y = np.arange(60) % 2
X = np.round(RNG.normal(size=(60, 4)) + 5.0 * Y[:, None] * np.array([1, 0, 0, 0]), 2)
X[np.abs(X) < 0.5] = 0.0


def quiet_fit(machine, X, y, **arguments):
    model = build(machine)
    if "time_budget" in machine.names:
        model.set_params(time_budget=None)
    with warnings.catch_warnings(action="ignore"):
        return model.fit(X, y, **arguments)


def targets(machine):
    return Y if is_classifier(build(machine)) else X[:, 1] + X[:, 0] ** 2


def unsorted(matrix):
    """The same rows with entries in reverse order, one of each row in two halves."""
    data, indices, indptr = [], [], [0]
    for row in range(matrix.shape[0]):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        values, columns = list(matrix.data[span][::-1]), list(matrix.indices[span][::-1])
        if values:
            values, columns = [*values, values[0] / 2], [*columns, columns[0]]
            values[0] /= 2
        data += values
        indices += columns
        indptr.append(len(data))
    arrays = np.array(data), np.array(indices, np.int32), np.array(indptr, np.int32)
    return sp.csr_matrix(arrays, shape=matrix.shape)


CSR = sp.csr_matrix(X)


def frozen(matrix):
    """A CSR matrix none of whose arrays may be written to."""
    copies = [array.copy() for array in (matrix.data, matrix.indices, matrix.indptr)]
    for array in copies:
        array.setflags(write=False)
    return sp.csr_matrix(tuple(copies), shape=matrix.shape, copy=False)


def wide_indices(matrix):
    matrix = sp.csr_array(matrix)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


SPARSE = {
    "csr_array, int64 indices": lambda: wide_indices(CSR),
    "read-only": lambda: frozen(CSR),
    "unsorted, duplicates, read-only": lambda: frozen(unsorted(CSR)),
    "csc": lambda: sp.csc_array(CSR),
}


@functools.cache
def model_of(machine, sparse=False, rounded=False):
    """The model of the rows as they are, in dense or sparse form, and of rounded targets."""
    y = targets(machine)
    return quiet_fit(machine, (CSR if sparse else X).copy(), np.round(y) if rounded else y)


def expected(machine, *, sparse):
    """What the model of the rows as they are predicts for them."""
    return model_of(machine, sparse).predict(CSR if sparse else X)


def require_same(predicted, expected):
    """Predictions of models that differ by the rounding of products of arrays in another order.

    Searches for parameters may take another of several equally good ones.
    """
    if expected.dtype.kind in "iu":
        np.testing.assert_array_equal(predicted, expected)
    else:
        assert np.mean((predicted - expected) ** 2) < 1e-2 * np.var(expected)


@pytest.mark.parametrize("form", SPARSE)
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_sparse_rows_of_any_form_give_the_model_of_csr(machine, form):
    y, rows = targets(machine), SPARSE[form]()
    before = [array.copy() for array in (rows.data, rows.indices, rows.indptr)]
    predicted = quiet_fit(machine, rows, y).predict(rows)
    for array, copy in zip((rows.data, rows.indices, rows.indptr), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    require_same(predicted, expected(machine, sparse=True))


# Their choice of a metric may fall on another of several that are equally good.
CHOOSE_A_METRIC = {"TunedKernelRidge", "RecursiveFeatureClassifier", "RecursiveFeatureRegressor"}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_csr_rows_give_the_values_of_dense_rows(machine, dtype):
    y, new = targets(machine), (X[:40] + 0.25 * (X[:40] != 0.0)).astype(dtype)
    if dtype == np.float64:
        dense, sparse = (model_of(machine, sparse) for sparse in (False, True))
    else:
        dense, sparse = (quiet_fit(machine, rows.astype(dtype), y) for rows in (X, CSR))
    wanted, found = (
        getattr(model, "decision_function", model.predict)(rows)
        for model, rows in ((dense, new), (sparse, sp.csr_array(new)))
    )
    if machine.cls.__name__ in CHOOSE_A_METRIC:
        assert np.mean((found - wanted) ** 2) < 0.05 * np.var(wanted)
    else:
        np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("machine", [m for m in MACHINES if issubclass(m.cls, SelfTuning)], ids=str)
def test_columns_in_other_units_do_not_hide_the_others_in_csr_rows(machine, small, monkeypatch):
    """What an encoder of categories makes of a table; only dense rows were standardised."""
    if not small:
        monkeypatch.setattr(constants, "SMALL_ROWS", 150)
    rng = np.random.default_rng(0)
    category, numbers = rng.integers(0, 5, 300), rng.normal(size=(300, 2))
    f = np.arange(5.0)[category] + np.sin(2.0 * numbers[:, 0])
    rows = sp.csr_array(np.hstack([np.eye(5)[category], numbers * [1.0, 1e5] + [3.0, 3e5]]))
    y = (f > 2.0).astype(int) if is_classifier(build(machine)) else f
    model = quiet_fit(machine, rows[:200], y[:200])
    assert model.score(rows[200:], y[200:]) > 0.85
    assert model.scaler_ is not None or model.metric_ is not None
    # Indicators alone have no unit.
    assert quiet_fit(machine, rows[:200, :5], y[:200]).scaler_ is None


def frame(kind):
    if kind == "polars":
        polars = pytest.importorskip("polars")
        return polars.DataFrame({f"x{j}": X[:, j] for j in range(4)})
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(X, columns=[f"x{j}" for j in range(4)], index=np.arange(60) + 1000)
    return rows.convert_dtypes() if kind == "pandas nullable" else rows


@pytest.mark.parametrize(
    ("kind", "output"), [("pandas", "pandas"), ("pandas nullable", "default"), ("polars", "pandas")]
)
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_frames_give_the_model_of_arrays(machine, kind, output):
    y, rows = targets(machine), frame(kind)
    with sklearn.config_context(transform_output=output):
        predicted = quiet_fit(machine, rows, y).predict(rows)
    require_same(predicted, expected(machine, sparse=False))


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_frame_is_fitted_and_predicted_without_a_warning_of_its_names(machine):
    y, rows = targets(machine), frame("pandas")
    for probability in (False, True)[: 1 + ("probability" in machine.names)]:
        model = build(machine)
        if probability:
            model.set_params(probability=True)
        with warnings.catch_warnings(action="ignore"):
            warnings.filterwarnings("error", message=".*feature names")
            model.fit(rows, y).predict(rows)
        np.testing.assert_array_equal(model.feature_names_in_, rows.columns)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(X)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(rows[rows.columns[::-1]])


@pytest.mark.parametrize(
    "form", [np.int8, np.float16, np.longdouble, ">f4", object, str, "M8[D]"], ids=str
)
@pytest.mark.parametrize("machine", [m for m in MACHINES if is_regressor(build(m))], ids=str)
def test_targets_of_any_type_are_their_numbers(machine, form):
    y = np.round(targets(machine))
    predicted = quiet_fit(machine, X, y.astype(int).astype(form)).predict(X)
    np.testing.assert_array_equal(predicted, model_of(machine, rounded=True).predict(X))


@pytest.mark.parametrize(
    "machine", [machine for machine in MACHINES if "kernel" in machine.names], ids=str
)
def test_precomputed_kernels_are_dense_and_symmetric_or_refused(machine):
    """Of an asymmetric matrix scikit-learn's `KernelRidge` reads one triangle without a word."""
    model = build(machine).set_params(kernel="precomputed")
    gram, upper = X @ X.T, np.triu(X @ X.T)
    refused = r"'kernel' parameter|needs rows of features"
    for values, message in ((sp.csr_array(gram), "Sparse precomputed"), (upper, "symmetric")):
        with pytest.raises((TypeError, ValueError), match=f"{message}|{refused}"):
            model.fit(values, targets(machine))
    model = build(machine)
    if isinstance(model, TakesAnyRows):
        with pytest.raises(ValueError, match="a callable kernel needs a symmetric matrix"):
            model.set_params(kernel=lambda *_: upper).fit(X, targets(machine))


@pytest.mark.parametrize("cache_size", [1000.0, 1e-2])
def test_a_callable_kernel_sees_all_training_rows(cache_size):
    """Kernels centred at the training rows, of texts, in one call and in calls of some rows."""
    words = np.array(["a" * int(i % 7) + "b" * int(i % 5) for i in range(60)], dtype=object)
    counts = np.array([[word.count("a"), word.count("b")] for word in words], float)
    shapes = []

    def kernel(A, B):
        shapes.append((len(A), len(B)))
        A, B = (np.array([[w.count("a"), w.count("b")] for w in part], float) for part in (A, B))
        return sp.csr_array((A - B.mean(axis=0)) @ (B - B.mean(axis=0)).T)

    y = (counts[:, 0] > counts[:, 1]).astype(int)
    model = KernelSVC(kernel=kernel, cache_size=cache_size).fit(words, y)
    centred = counts - counts.mean(axis=0)
    expected = KernelSVC(kernel="linear").fit(centred, y)
    np.testing.assert_allclose(
        model.decision_function(words), expected.decision_function(centred), atol=5e-3
    )
    assert {columns for _, columns in shapes} == {60}


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_rows_in_chunks_are_predicted_or_refused_by_name(machine):
    model, rows = model_of(machine), ChunkedRows.of_arrays(X, memory_mb=1e-3)
    try:
        predicted = model.predict(rows)
    except ValueError as error:
        assert "X is ChunkedRows" in str(error)  # noqa: PT017
    else:
        require_same(predicted, model.predict(X))


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_rows_in_chunks_are_fitted_or_refused_by_name(machine):
    model = build(machine)
    try:
        with warnings.catch_warnings(action="ignore"):
            model.fit(ChunkedRows.of_arrays(X, targets(machine)))
    except ValueError as error:
        assert not getattr(model, "accepts_chunks", False)
        assert re.search(rf"{type(model).__name__} .* in chunks", str(error))  # noqa: PT017
    else:
        assert model.accepts_chunks
