"""KernelSVC and KernelSVR agree with SVC and SVR over every parameter that they share."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.svm import SVC, SVR

from kbench.methods import KernelSVC, KernelSVR

TOL = 1e-5


def classes_of(k, n=240):
    rng = np.random.default_rng(k)
    X = rng.normal(size=(n, 5))
    scores = X @ rng.normal(size=(5, k)) + np.sin(3 * X[:, :1]) + 0.3 * rng.normal(size=(n, k))
    return X, np.array(["a", "b", "c", "d"])[scores.argmax(axis=1)]


def agree(ours, theirs, X, atol=2e-4):
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=atol)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"C": 7.0, "gamma": 0.4},
        {"gamma": "auto"},
        {"kernel": "linear", "C": 0.5},
        {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 1.0},
        {"kernel": "sigmoid", "gamma": 0.02, "coef0": 0.1},
        {"class_weight": "balanced"},
        {"class_weight": {"a": 3.0}},
        {"shrinking": False},
        {"decision_function_shape": "ovo"},
        {"break_ties": True},
        {"cache_size": 5},
    ],
)
def test_every_shared_parameter_means_the_same(parameters, k, sparse):
    X, y = classes_of(k)
    if sparse:
        X = sp.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    ours = KernelSVC(tol=TOL, **parameters).fit(X, y, sample_weight=weight)
    theirs = SVC(tol=TOL, **parameters).fit(sp.csr_matrix(X) if sparse else X, y, weight)
    agree(ours, theirs, X)
    assert ours.dual_coef_.shape[0] == theirs.dual_coef_.shape[0]
    assert ours.n_iter_.shape == theirs.n_iter_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.support_vectors_.shape[1] == X.shape[1]
    assert ours.shape_fit_ == theirs.shape_fit_
    assert ours.fit_status_ == theirs.fit_status_ == 0
    np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)


def test_support_vectors_have_the_order_of_svc():
    X, y = load_iris(return_X_y=True)
    ours, theirs = (cls(gamma=0.5, tol=TOL).fit(X, y) for cls in (KernelSVC, SVC))
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)


@pytest.mark.parametrize("k", [2, 3])
def test_the_normals_of_a_linear_machine_are_those_of_svc(k):
    X, y = classes_of(k)
    ours, theirs = (cls(kernel="linear", tol=1e-6).fit(X, y) for cls in (KernelSVC, SVC))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = KernelSVC().fit(X, y).coef_


def test_equal_votes_go_to_the_first_class_unless_ties_are_broken():
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).uniform(0, 8, size=(5000, 4))
    for break_ties in (False, True):
        parameters = {"C": 0.1, "gamma": 1.0, "tol": 1e-8, "break_ties": break_ties}
        ours, theirs = (cls(**parameters).fit(X, y).predict(rows) for cls in (KernelSVC, SVC))
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="break_ties must be False"):
        KernelSVC(break_ties=True, decision_function_shape="ovo").fit(X, y).predict(X)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"C": 20.0, "gamma": 0.4, "epsilon": 0.02},
        {"kernel": "linear"},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": "sigmoid", "gamma": 0.02},
        {"epsilon": 0.0},
        # With a cache of 0.1 MB the problem is too large for the engine for small ones.
        {"C": 0.1, "epsilon": 0.0, "cache_size": 0.1},
        {"C": 10.0, "epsilon": 0.5, "cache_size": 0.1},
        {"shrinking": False},
    ],
)
def test_regression_is_that_of_svr(parameters, sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = 100.0 + np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200)
    if sparse:
        X = sp.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))
    ours = KernelSVR(tol=TOL, **parameters).fit(X, y)
    theirs = SVR(tol=TOL, **parameters).fit(sp.csr_matrix(X) if sparse else X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=5e-4)
    assert ours.dual_coef_.shape[0] == theirs.dual_coef_.shape[0] == 1
    assert isinstance(ours.n_iter_, int)
    assert ours.fit_status_ == 0
