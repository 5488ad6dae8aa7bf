"""KernelNuSVC and KernelNuSVR: scikit-learn's NuSVC and NuSVR, and what nu means."""

import numpy as np
import pytest
from dual_problem import coefficients
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel, sigmoid_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import NuSVC, NuSVR

from kbench.methods import KernelNuSVC, KernelNuSVR, KernelSVC, KernelSVR

TIGHT = {"tol": 1e-7, "dtype": "float64"}
IRIS, SPECIES = datasets.load_iris(return_X_y=True)
DIABETES, PROGRESS = datasets.load_diabetes(return_X_y=True)


def made(make, n=401, **options):
    X, y = make(n, random_state=0, **options)
    return StandardScaler().fit_transform(X), y


CLASSES = {
    "iris": (IRIS, SPECIES),
    "breast cancer": datasets.load_breast_cancer(return_X_y=True),
    "wine": datasets.load_wine(return_X_y=True),
    "moons": made(datasets.make_moons, noise=0.2),
    "blobs": made(datasets.make_blobs, centers=4, cluster_std=0.8),
    "mixture": made(datasets.make_classification, n_features=10, flip_y=0.1),
}
TARGETS = {
    "diabetes": (DIABETES, PROGRESS / 50.0),
    "friedman1": made(datasets.make_friedman1, noise=1.0),
    "friedman3": made(datasets.make_friedman3, noise=0.1),
    "linear": made(datasets.make_regression, n_features=8, noise=5.0),
}


def quadratic(model, X, gamma):
    """b'Kb / 2 of each binary problem of a model of two classes or one function."""
    return coefficients(model, len(X)), rbf_kernel(X, gamma=gamma)


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("name", CLASSES)
def test_it_is_nu_svc(name, nu):
    X, y = CLASSES[name]
    X = StandardScaler().fit_transform(X)
    train, new = slice(0, None, 2), slice(1, None, 2)
    model = KernelNuSVC(nu=nu, **TIGHT).fit(X[train], y[train])
    peer = NuSVC(nu=nu, tol=1e-7).fit(X[train], y[train])
    assert model.converged_
    assert np.mean(model.predict(X[new]) == peer.predict(X[new])) >= 0.99
    np.testing.assert_array_equal(model.classes_, peer.classes_)
    assert model.dual_coef_.shape == (len(model.classes_) - 1, len(model.support_))
    if len(model.classes_) > 2:
        return
    objectives = []
    for found in (model, peer):
        b, K = quadratic(found, X[train], model._gamma)
        # Divided so that the largest coefficient is 1, which it is before the scaling to margin 1.
        b /= np.abs(b).max()
        objectives.append(0.5 * b @ K @ b)
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("name", TARGETS)
def test_it_is_nu_svr(name, nu):
    X, y = TARGETS[name]
    train, new = slice(0, None, 2), slice(1, None, 2)
    model = KernelNuSVR(nu=nu, C=2.0, **TIGHT).fit(X[train], y[train])
    peer = NuSVR(nu=nu, C=2.0, tol=1e-7).fit(X[train], y[train])
    np.testing.assert_allclose(model.predict(X[new]), peer.predict(X[new]), atol=1e-4)
    objectives = []
    for found in (model, peer):
        b, K = quadratic(found, X[train], model._gamma)
        objectives.append(0.5 * b @ K @ b - y[train] @ b)
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)
    assert model.objective_ == pytest.approx(objectives[0], rel=1e-9)


@settings(max_examples=25)
@given(nu=st.floats(0.2, 0.9), weighted=st.booleans(), seed=st.integers(0, 1000))
def test_nu_bounds_margin_errors_and_support_vectors_of_a_classifier(nu, weighted, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0.0, 1, -1)
    weight = rng.integers(1, 4, 120).astype(float) if weighted else np.ones(120)
    model = KernelNuSVC(nu=nu, gamma=0.5, class_weight="balanced", **TIGHT).fit(X, y, weight)
    weight = weight * model.class_weight_[(y + 1) // 2]
    margin = y * model.decision_function(X)
    of_support = weight[model.support_]
    # Free rows are on the margin up to the violation.
    exact = 1.0 - 2.0 * model.violation_ / model.margin_[0] - 1e-6
    assert weight[margin < exact].sum() <= nu * weight.sum() * (1.0 + 1e-9)
    assert of_support.sum() >= nu * weight.sum() * (1.0 - 1e-9)
    # The coefficients before the division by the margin.
    b = np.abs(np.ravel(model.dual_coef_)) * model.margin_[0]
    assert b.sum() == pytest.approx(nu * weight.sum(), rel=1e-9)
    assert (b <= of_support * (1.0 + 1e-12)).all()


@settings(max_examples=25)
@given(nu=st.floats(0.05, 1.0), seed=st.integers(0, 1000))
def test_nu_bounds_errors_and_support_vectors_of_a_regression(nu, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_t(3, 120)
    model = KernelNuSVR(nu=nu, gamma=0.5, **TIGHT).fit(X, y)
    outside = np.abs(y - model.predict(X)) > model.epsilon_ + 1e-5
    if model.epsilon_ > 0.0:
        assert outside.mean() <= nu + 1e-9
        assert len(model.support_) >= nu * 120 - 1e-6
    assert np.abs(model.dual_coef_).sum() <= nu * 120 * (1.0 + 1e-9)


def test_the_margin_and_the_tube_give_the_models_of_c_and_epsilon():
    X, y = CLASSES["mixture"]
    model = KernelNuSVC(nu=0.4, **TIGHT).fit(X, y)
    same = KernelSVC(C=1.0 / model.margin_[0], **TIGHT).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-5)
    X, y = TARGETS["friedman1"]
    model = KernelNuSVR(nu=0.4, **TIGHT).fit(X, y)
    same = KernelSVR(epsilon=model.epsilon_, **TIGHT).fit(X, y)
    np.testing.assert_allclose(model.predict(X), same.predict(X), atol=1e-5)


def test_an_infeasible_nu_is_refused_with_the_largest_feasible_one():
    y = np.repeat([0, 1, 2], 50)[:130]
    with pytest.raises(ValueError, match=r"infeasible: nu=0.8 is above 0.75, .*classes 0 and 2"):
        KernelNuSVC(nu=0.8).fit(IRIS[:130], y)
    KernelNuSVC(nu=0.75).fit(IRIS[:130], y)
    KernelNuSVC(nu=0.8, class_weight="balanced").fit(IRIS[:130], y)
    with pytest.raises(ValueError, match=r"above 0\.25"):
        KernelNuSVC(nu=0.5).fit(IRIS[:100], SPECIES[:100], np.repeat([1.0, 7.0], 50))


def test_rows_that_no_margin_separates_are_named():
    X = np.concatenate([IRIS[:50], IRIS[:50]])
    y = np.repeat([0, 1], 50)
    with pytest.warns(ConvergenceWarning, match=r"nu=0.3 leaves no margin"):
        model = KernelNuSVC(nu=0.3).fit(X, y)
    assert not model.converged_
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("nu", [0.2, 0.4])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_margin_below_zero_reverses_no_predictions(seed, nu):
    """A sigmoid kernel is not positive semidefinite, and `NuSVC` predicts the opposite with it."""
    X, y = datasets.make_classification(80, 5, random_state=seed, flip_y=0.1)
    options = {"nu": nu, "kernel": "sigmoid", "gamma": 0.5, "coef0": 0.3, "tol": 1e-6}
    model, signs = KernelNuSVC(**options).fit(X, y), 2.0 * y - 1.0
    alpha = signs * coefficients(model, 80).ravel() * model.margin_
    assert model.margin_ > 0.0
    assert model.score(X, y) > 0.5
    assert -1e-9 <= alpha.min() <= alpha.max() <= 1.0 + 1e-9
    # It is a stationary point: no step between two rows of a class lowers the objective.
    K = sigmoid_kernel(X, gamma=0.5, coef0=0.3)
    slope = signs * (K @ (signs * alpha))
    for c in (-1.0, 1.0):
        rows = signs == c
        assert alpha[rows].sum() == pytest.approx(nu * 40.0, rel=1e-6)
        raised, lowered = rows & (alpha < 1.0 - 1e-9), rows & (alpha > 1e-9)
        assert slope[lowered].max() - slope[raised].min() < 1e-5
    reversed_one = NuSVC(**options).fit(X, y)
    if (reversed_one.dual_coef_[0] * signs[reversed_one.support_]).max() < 0.0:
        assert reversed_one.score(X, y) < 0.5


def test_pairs_that_share_their_values_are_those_that_compute_them():
    X, y = CLASSES["blobs"]
    shared = KernelNuSVC(nu=0.3, **TIGHT).fit(X, y)
    # Without memory to store values.
    own = KernelNuSVC(nu=0.3, cache_size=0.0, **TIGHT).fit(X, y)
    np.testing.assert_allclose(shared.dual_coef_, own.dual_coef_, atol=1e-4)
    assert shared.kernel_entries_ <= len(X) ** 2 < own.kernel_entries_


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_model_that_is_replaced_by_the_most_frequent_class_is_one(n_classes):
    """With values near 0 and a small nu nothing is learnt."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, n_classes, 40)
    y[:12] = 0
    model = KernelNuSVC(nu=0.05, kernel="sigmoid", gamma=1e-9).fit(X, y)
    assert set(model.predict(X)) == {0}
    assert not model.dual_coef_.any()
    peer = model.to_sklearn()
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(peer.predict(X), model.predict(X))
