"""RACQPClassifier: the estimator around the multi-block solver."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from small_problems import binary

from kbench.methods import RACQPClassifier


def test_long_runs_are_the_support_vector_machine():
    X, y = binary(d=3)
    options = {"gamma": 0.5, "block_size": 100, "beta": 1.0, "dtype": "float64", "random_state": 0}
    model = RACQPClassifier(max_iter=3000, tol=1e-7, **options).fit(X, y)
    exact = SVC(gamma=0.5, tol=1e-8).fit(X, y)
    assert model.converged_
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert model.intercept_[0] == pytest.approx(exact.intercept_[0], abs=1e-3)
    coef = exact.dual_coef_[0]
    K = rbf_kernel(X[exact.support_], gamma=0.5)
    assert model.objective_ == pytest.approx(0.5 * coef @ K @ coef - np.abs(coef).sum(), rel=1e-5)
    assert set(model.timings_) == {"prepare", "solve"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_decision_is_the_expansion_and_decimals_round_it():
    X, y = binary(d=3)
    options = {"gamma": 0.5, "block_size": 100, "max_iter": 5, "random_state": 0}
    model = RACQPClassifier(decimals=1, **options).fit(X, y)
    np.testing.assert_allclose(model.dual_coef_, np.round(model.dual_coef_, 1), atol=1e-12)
    values = rbf_kernel(X, X[model.support_], gamma=0.5) @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), values, atol=1e-4)
    assert len(model.support_) < len(RACQPClassifier(**options).fit(X, y).support_)
