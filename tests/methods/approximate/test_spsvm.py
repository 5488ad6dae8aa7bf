"""SparsePrimalSVC: the estimator around the sparse primal solver, whose facts have tests there."""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from small_problems import binary

from kbench.methods import SparsePrimalSVC
from kbench.trace import Trace


def test_decision_is_the_expansion_on_the_basis():
    X, y = binary()
    trace = Trace()
    model = SparsePrimalSVC(20, C=5.0, gamma=0.5, random_state=0).fit(X, y, trace=trace)
    K = rbf_kernel(X, X[model.support_], gamma=0.5)
    np.testing.assert_allclose(model.decision_function(X), K @ model.dual_coef_[0], atol=1e-9)
    assert len(model.support_) == model.n_support_.sum() == 20
    assert set(model.timings_) == {"prepare", "select", "newton"}
    assert model.score(X, y) > 0.85
    assert model.converged_


def test_several_classes_have_a_basis_each():
    X, y = load_iris(return_X_y=True)
    model = SparsePrimalSVC(10, C=10.0, gamma=0.5, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    np.testing.assert_array_equal((model.dual_coef_ != 0).sum(axis=1), 10)
    assert model.dual_coef_.shape == (3, len(model.support_))
