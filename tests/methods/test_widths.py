"""`gamma` as an array: the kernel of scaled columns, in every estimator that takes it."""

import numpy as np
import pytest
import scipy.sparse as sp
from all_machines import build, machines
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_diabetes

from kbench.chunked import ChunkedRows
from kbench.kernels import KERNELS, KernelMatrix, make_kernel
from kbench.kernels.kernel import parameters
from kbench.kernels.registry import kernel_names
from kbench.methods import DCSVC, KernelOneClassSVM, KernelRidge, KernelSVC, KernelSVR
from kbench.methods.base.widths import has_widths, scaled_rows
from kbench.metric import LearnedMetric
from kbench.prediction import load_model, save_libsvm, save_model

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N + 20, 4))
X[np.abs(X) < 0.3] = 0.0
WIDTHS = np.array([0.5, 0.0, 2.0, 0.1])
SIGNAL = np.sin(X[:, 0]) + X[:, 2]
Y = SIGNAL + 0.1 * RNG.normal(size=len(X))
LABELS = np.where(np.median(Y) < Y, 1, -1)
WITH_GAMMA = [name for name in kernel_names("of_rows") if "gamma" in parameters(KERNELS[name])]
# The root of a squared distance that is rounded has the root of its error, where rows are equal.
ATOL = dict.fromkeys(WITH_GAMMA, 1e-12) | {"matern12": 1e-6}
# Small sizes: some fits are stopped, and ranks are clipped.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def targets(machine):
    return LABELS[:N] if is_classifier(build(machine)) else Y[:N]


def takes_widths(machine):
    constraints = getattr(machine.cls, "_parameter_constraints", {})
    return "array-like" in constraints.get("gamma", [])


FOUND = [machine for machine in machines() if "gamma" in machine.names]
ABLE = [machine for machine in FOUND if takes_widths(machine)]
UNABLE = [machine for machine in FOUND if not takes_widths(machine)]


def test_the_exact_the_divided_and_the_ridge_models_take_widths():
    names = {machine.cls.__name__ for machine in ABLE}
    exact = {
        *("KernelSVC", "KernelSVR", "KernelNuSVC", "KernelNuSVR", "KernelOneClassSVM"),
        *("KernelQuantileRegressor", "KernelRidge", "KernelRidgeClassifier"),
    }
    assert exact <= names
    assert {"FalkonRegressor", "ASkotchRegressor", "DCKernelRidge", "DCSVC", "BaggingSVC"} <= names


def values(name, gamma, rows):
    """(n, n) values of a kernel between rows, as an estimator has them."""
    scaled = scaled_rows(KernelSVR(kernel=name, gamma=gamma), rows)
    kernel = make_kernel(name, scaled, gamma=1.0 if has_widths(gamma) else gamma)
    return KernelMatrix(kernel, scaled, np.float64).block(np.arange(rows.shape[0]))


@pytest.mark.parametrize("rows", [X, sp.csr_array(X)], ids=["dense", "csr"])
@pytest.mark.parametrize("name", WITH_GAMMA)
def test_equal_widths_are_one_gamma(name, rows):
    found = values(name, np.full(4, 0.7), rows)
    np.testing.assert_allclose(found, values(name, 0.7, rows), rtol=1e-12, atol=ATOL[name])


@pytest.mark.parametrize("name", WITH_GAMMA)
def test_values_are_those_of_the_formula_for_scaled_columns(name):
    power = KERNELS[name].gamma_power
    kernel = make_kernel(name, X, gamma=1.0)
    scaled = X * WIDTHS ** (1 / power)
    expected = [[kernel.naive(x, z) for z in scaled] for x in scaled]
    np.testing.assert_allclose(values(name, WIDTHS, X), expected, rtol=1e-12, atol=ATOL[name])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("machine", ABLE, ids=str)
def test_predictions_are_those_for_scaled_columns(machine, form):
    y = targets(machine)
    model = build(machine).set_params(kernel="rbf", gamma=WIDTHS).fit(form(X[:N]), y)
    scaled = X * np.sqrt(WIDTHS)
    peer = clone(model).set_params(gamma=1.0).fit(form(scaled[:N]), y)
    np.testing.assert_array_equal(model.predict(form(X[N:])), peer.predict(form(scaled[N:])))
    if hasattr(model, "decision_function"):
        found, expected = (
            one.decision_function(form(rows)) for one, rows in ((model, X[N:]), (peer, scaled[N:]))
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("machine", ABLE, ids=str)
def test_a_stored_model_and_a_later_fit(machine, tmp_path):
    y = targets(machine)
    model = build(machine).set_params(kernel="rbf", gamma=WIDTHS.tolist()).fit(X[:N], y)
    stored = load_model(save_model(tmp_path / "model.npz", model)).estimator
    np.testing.assert_array_equal(stored.predict(X[N:]), model.predict(X[N:]))
    again = model.set_params(gamma=0.5).fit(X[:N], y).predict(X[N:])
    peer = build(machine).set_params(kernel="rbf", gamma=0.5).fit(X[:N], y)
    np.testing.assert_array_equal(again, peer.predict(X[N:]))


@pytest.mark.parametrize("machine", UNABLE, ids=str)
def test_every_other_estimator_refuses_widths(machine):
    with pytest.raises(ValueError, match="gamma") as error:
        build(machine).set_params(gamma=WIDTHS).fit(X[:N], targets(machine))
    assert "\n" not in str(error.value).replace(str(WIDTHS), "")


NO_WIDTHS = [
    ([1.0, 2.0], r"gamma is \[1.0, 2.0\] of shape \(2,\), should be a number, or 4 numbers"),
    (np.ones((4, 1)), r"of shape \(4, 1\), should be a number, or 4 numbers"),
    ([1.0, 2.0, -3.0, 1.0], r"gamma\[2\] is -3, should be a finite number from 0"),
    ([1.0, np.nan, 0.0, 1.0], r"gamma\[1\] is nan, should be a finite number from 0"),
    ([0.0] * 4, "gamma is 0 for every column of X"),
    (["a"] * 4, r"should be a number, or 4 numbers"),
]


@pytest.mark.parametrize("machine", ABLE, ids=str)
def test_what_are_no_widths_is_named(machine):
    for gamma, message in NO_WIDTHS:
        with pytest.raises(ValueError, match=message):
            build(machine).set_params(kernel="rbf", gamma=gamma).fit(X[:N], targets(machine))


@pytest.mark.parametrize("kernel", ["linear", "precomputed", lambda A, B: A @ B.T])
def test_a_kernel_without_gamma_has_no_widths(kernel):
    rows = X[:N] @ X[:N].T if kernel == "precomputed" else X[:N]
    for cls in (KernelSVR, KernelRidge):
        with pytest.raises(ValueError, match="gamma is an array of widths, which kernel="):
            cls(kernel=kernel, gamma=np.ones(rows.shape[1])).fit(rows, Y[:N])


def test_rows_in_chunks_have_one_width():
    rows = ChunkedRows.of_arrays(X[:N], LABELS[:N])
    with pytest.raises(ValueError, match="needs all rows in memory"):
        KernelSVC(kernel="linear", gamma=WIDTHS).fit(rows)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_attributes_hold_the_rows_as_they_were_given(form):
    dense = np.asarray if form is np.asarray else lambda rows: rows.toarray()
    for model in (KernelSVC, KernelSVR, KernelOneClassSVM):
        fitted = model(gamma=WIDTHS).fit(form(X), LABELS)
        np.testing.assert_array_equal(dense(fitted.support_vectors_), X[fitted.support_])
    fitted = KernelRidge(kernel="rbf", gamma=WIDTHS).fit(form(X), Y)
    np.testing.assert_array_equal(dense(fitted.X_fit_), X)


@pytest.mark.parametrize("cls", [KernelSVC, DCSVC])
def test_the_penalty_is_chosen_for_scaled_columns(cls):
    options = {"C": "loo"} | ({"n_clusters": 2, "random_state": 0} if cls is DCSVC else {})
    found = cls(gamma=WIDTHS, **options).fit(X, LABELS)
    expected = cls(gamma=1.0, **options).fit(X * np.sqrt(WIDTHS), LABELS)
    assert found.C_ == expected.C_


def test_probabilities_and_deviations_are_those_for_scaled_columns():
    scaled = X * np.sqrt(WIDTHS)
    early = DCSVC(2, combine="early", probability=True, random_state=0)
    for model in (KernelSVC(probability=True, random_state=0), early):
        found, expected = (
            clone(model).set_params(gamma=gamma).fit(rows, LABELS).predict_proba(rows)
            for gamma, rows in ((WIDTHS, X), (1.0, scaled))
        )
        np.testing.assert_array_equal(found, expected)
    for solver in ("cholesky", "pcg"):
        options = {"kernel": "rbf", "solver": solver, "alpha": 0.1}
        found, expected = (
            KernelRidge(gamma=gamma, **options).fit(rows, Y).predict(rows[:9], return_std=True)
            for gamma, rows in ((WIDTHS, X), (1.0, scaled))
        )
        np.testing.assert_array_equal(found, expected)


def test_other_programs_classes_have_one_width(tmp_path):
    model = KernelSVC(gamma=WIDTHS).fit(X, LABELS)
    with pytest.raises(ValueError, match="gamma is an array of widths, SVC has one"):
        model.to_sklearn()
    with pytest.raises(ValueError, match="gamma is an array of widths"):
        save_libsvm(model, tmp_path / "model")


@pytest.mark.parametrize("kernel", ["rbf", "matern12", "laplacian"])
def test_a_diagonal_metric_is_an_array_of_widths(kernel):
    rows, y = load_diabetes(return_X_y=True)
    metric = LearnedMetric("diagonal", kernel=kernel, random_state=0).fit(rows[:300], y[:300])
    widths = metric.widths()
    assert widths.shape == (10,)
    assert (widths > 0.0).any()
    options = {"kernel": metric.kernel_, "alpha": metric.ridge_, "dtype": "float64"}
    direct = KernelRidge(gamma=widths, **options).fit(rows[:300], y[:300])
    behind = KernelRidge(gamma=metric.gamma_, **options)
    behind.fit(metric.transform(rows[:300]), y[:300])
    expected = behind.predict(metric.transform(rows[300:]))
    np.testing.assert_allclose(direct.predict(rows[300:]), expected, rtol=1e-6)


def test_a_metric_that_is_no_array_of_widths_says_why():
    rows, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match="structure_ is 'full', so that features are mixed"):
        LearnedMetric("full", n_rounds=1, random_state=0).fit(rows, y).widths()
    for options in ({"structure": "diagonal", "scaling": "clipped"}, {"structure": "warped"}):
        mapped = LearnedMetric(n_rounds=1, random_state=0, **options).fit(rows, y)
        with pytest.raises(ValueError, match=r"structure_ '\w+', so that columns are mapped first"):
            mapped.widths()
