"""EigenPro 3 finds FALKON's model: the same centres, the same problem, another algorithm."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from kbench.methods import (
    EigenPro3Classifier,
    EigenPro3Regressor,
    FalkonClassifier,
    FalkonRegressor,
)

X, LABELS = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
TARGETS = np.column_stack([np.sin(X.sum(axis=1)), X[:, 0] * X[:, 1]])
SETTINGS = {"n_components": 40, "gamma": 0.5, "random_state": 3}


@pytest.mark.parametrize(
    "rows", [X, X.astype(np.float32), sp.csr_array(X)], ids=["64", "32", "csr"]
)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("cls", "falkon", "y", "function"),
    [
        (EigenPro3Regressor, FalkonRegressor, TARGETS, "predict"),
        (EigenPro3Classifier, FalkonClassifier, LABELS, "decision_function"),
    ],
    ids=["targets", "classes"],
)
def test_the_model_is_falkons(rows, kernel, fit_intercept, cls, falkon, y, function):
    given = SETTINGS | {"alpha": 0.5, "kernel": kernel, "fit_intercept": fit_intercept}
    model = cls(**given, tol=1e-6, max_iter=300).fit(rows, y)
    other = falkon(**given, tol=1e-10).fit(rows, y)
    assert model.converged_
    assert model.residual_.max() <= 1e-6
    assert model.dual_coef_.shape == (40, other.dual_coef_.shape[1])
    np.testing.assert_allclose(
        getattr(model, function)(rows), getattr(other, function)(rows), atol=2e-3
    )
    assert model.n_parameters_ == other.n_parameters_
    assert model.model_bytes_ == other.model_bytes_


def test_more_centres_than_rows_are_all_rows_and_larger_batches_are_passes():
    with pytest.warns(UserWarning, match="n_components=151 is more than n_samples=150"):
        model = EigenPro3Classifier(
            0.5, n_components=151, batch_size=1000, gamma=0.5, max_iter=1000, random_state=0
        ).fit(X, LABELS)
    np.testing.assert_array_equal(model.centres_, np.arange(150))
    assert model.batch_size_ == 150
    assert model.converged_


def test_an_inexact_projection_finds_the_same_model():
    exact, inexact = (
        EigenPro3Regressor(0.5, **SETTINGS, projection_passes=passes, tol=1e-6, max_iter=300).fit(
            X, TARGETS
        )
        for passes in (0, 2)
    )
    assert inexact.converged_
    assert inexact.kernel_entries_ > exact.kernel_entries_
    np.testing.assert_allclose(inexact.predict(X), exact.predict(X), atol=1e-4)
