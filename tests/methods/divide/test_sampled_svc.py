"""SubsampleSVC and BaggingSVC: exact machines of random rows, alone and in a vote."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from small_problems import ring

from kbench.methods import BaggingSVC, KernelSVC, SubsampleSVC

EXACT = {"gamma": 0.5, "tol": 1e-8, "dtype": "float64"}


def test_subsample_is_the_exact_machine_of_its_rows():
    X, y = ring()
    model = SubsampleSVC(0.3, random_state=5, **EXACT).fit(X, y)
    rows = np.sort(np.random.RandomState(5).choice(400, 120, replace=False))
    exact = KernelSVC(fit_intercept=False, **EXACT).fit(X[rows], y[rows])
    np.testing.assert_array_equal(model.support_, np.sort(rows[exact.support_]))
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-9)
    assert model.kernel_entries_ <= 2 * 120**2


def test_vote_is_the_vote_of_the_machines():
    X, y = ring()
    model = BaggingSVC(7, random_state=0, **EXACT).fit(X, y)
    machines = [
        KernelSVC(fit_intercept=False, **EXACT).fit(X[rows], y[rows]) for rows in model.samples_
    ]
    signs = [machine.predict(X) for machine in machines]
    np.testing.assert_allclose(model.decision_function(X), np.mean(signs, axis=0))
    assert [len(np.unique(rows)) for rows in model.samples_] == [58] * 7
    assert model.objective_ == pytest.approx(sum(m.objective_ for m in machines), rel=1e-8)


def test_vote_among_several_classes():
    X, y = load_iris(return_X_y=True)
    model = BaggingSVC(5, C=10.0, random_state=0, **EXACT).fit(X, y)
    machines = [
        KernelSVC(fit_intercept=False, C=10.0, **EXACT).fit(X[rows], y[rows]).predict(X)
        for rows in model.samples_
    ]
    shares = np.mean(np.equal.outer(machines, np.arange(3)), axis=0)
    np.testing.assert_allclose(model.decision_function(X), shares)
    assert model.score(X, y) > 0.9


def test_machines_of_one_class_vote_for_it():
    X = np.arange(40.0)[:, None]
    y = np.repeat([0, 1], [38, 2])
    model = BaggingSVC(20, gamma=1.0, random_state=0).fit(X, y)
    assert model.predict(X[:5]).tolist() == [0] * 5
