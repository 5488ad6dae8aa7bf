"""AESVC: with every row kept it is the exact machine, and close to it with few."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from kbench.methods import AESVC, KernelSVC


def moons(n=600):
    return make_moons(n, noise=0.15, random_state=0)


def test_all_rows_kept_is_the_plain_machine():
    X, y = moons(200)
    options = {"C": 3.0, "gamma": 2.0, "tol": 1e-6, "dtype": "float64"}
    model, exact = AESVC(-1.0, **options).fit(X, y), KernelSVC(**options).fit(X, y)
    np.testing.assert_allclose(model.beta_, 1.0)
    np.testing.assert_allclose(
        model.decision_function(X), exact.decision_function(X), rtol=1e-4, atol=1e-5
    )
    # Two solvers that stop at violations of 1e-6 differ by at most 2e-6 times the sum of alphas.
    assert model.objective_ == pytest.approx(exact.objective_, abs=1e-5)


@pytest.mark.parametrize("first_level", ["fls1", "fls2"])
def test_few_rows_give_nearly_the_machine_of_all(first_level):
    X, y = moons()
    exact = KernelSVC(C=3.0, gamma=2.0).fit(X, y)
    model = AESVC(3e-3, C=3.0, gamma=2.0, first_level=first_level, first_size=200).fit(X, y)
    assert len(model.representatives_) < 400
    assert model.beta_.sum() == pytest.approx(600)
    assert model.residuals_.max() <= 3e-3
    assert np.mean(model.predict(X) == exact.predict(X)) > 0.98
    # The losses of what a row stands for are at least its own: Jensen's inequality, up to eps.
    assert model.objective_ == pytest.approx(exact.objective_, rel=0.05)
    assert set(model.timings_) == {"prepare", "select", "solve"}


def test_a_weight_of_two_doubles_what_a_row_stands_for():
    X, y = moons(100)
    weighted = AESVC(1e-3, C=2.0, gamma=2.0).fit(X, y, np.full(100, 2.0))
    plain = AESVC(1e-3, C=4.0, gamma=2.0).fit(X, y)
    np.testing.assert_allclose(weighted.beta_, 2.0 * plain.beta_)
    np.testing.assert_allclose(weighted.dual_coef_, plain.dual_coef_)
