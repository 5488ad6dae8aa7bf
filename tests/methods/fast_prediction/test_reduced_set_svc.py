"""ReducedSetSVC: an expansion on few points with the intercept of the exact machine."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from small_problems import ring

from kbench.methods import KernelSVC, ReducedSetSVC


def test_decision_is_the_expansion_on_the_points():
    X, y = ring()
    model = ReducedSetSVC(6, C=3.0, gamma=0.5, random_state=0).fit(X, y)
    K = rbf_kernel(X, model.points_, gamma=0.5)
    np.testing.assert_allclose(
        model.decision_function(X), K @ model.coef_[0] + model.intercept_, rtol=1e-5, atol=1e-5
    )
    exact = KernelSVC(C=3.0, gamma=0.5).fit(X, y)
    assert model.score(X, y) > exact.score(X, y) - 0.02
    assert model.objective_ == pytest.approx(exact.objective_)
    assert model.model_bytes_ < 0.2 * exact.model_bytes_


@pytest.mark.parametrize("preimage", ["gradient", "fixed_point"])
def test_several_classes(preimage):
    X, y = load_iris(return_X_y=True)
    options = {"preimage": preimage, "C": 5.0, "gamma": 0.5, "random_state": 0}
    model = ReducedSetSVC(5, **options).fit(X, y)
    assert model.score(X, y) > 0.94
    assert model.coef_.shape == (3, 15)
    np.testing.assert_array_equal((model.coef_ != 0).sum(axis=1), 5)
    assert all(np.diff(left).max() < 1e-6 for left in model.residuals_)
