"""Dense and CSR rows, given values and functions of rows are one problem: the same model."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV

from kbench.methods import (
    DCSVC,
    KernelNuSVC,
    KernelNuSVR,
    KernelOneClassSVM,
    KernelQuantileRegressor,
    KernelSVC,
    KernelSVR,
    LaSVC,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
VALUES = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * RNG.normal(size=300)
LABELS = np.where(VALUES > 0, "yes", "no")
PARAMETERS = {
    "rbf": {"gamma": 0.5},
    "laplacian": {"gamma": 0.5},
    "poly": {"gamma": 0.5, "coef0": 1.0, "degree": 3},
    "linear": {},
}
EXACT = {"tol": 1e-7, "dtype": "float64"}
MACHINES = [
    KernelNuSVC(nu=0.3),
    KernelNuSVR(nu=0.3),
    KernelOneClassSVM(),
    KernelQuantileRegressor(quantile=[0.9, 0.1, 0.5]),
    DCSVC(5, partition="kernel_kmeans", random_state=0),
    KernelSVR(),
    LaSVC(3, random_state=0),
]


@pytest.mark.parametrize(
    ("machine", "kernel"),
    [*((one, "rbf") for one in MACHINES), *((KernelSVC(), kernel) for kernel in PARAMETERS)],
    ids=str,
)
def test_rows_of_every_kind_give_one_model(machine, kernel):
    def function(A, B):
        return pairwise_kernels(A, B, metric=kernel, **PARAMETERS[kernel])

    y = LABELS if is_classifier(machine) else VALUES
    machine = clone(machine).set_params(kernel=kernel, **EXACT, **PARAMETERS[kernel])
    wanted = getattr(machine, "decision_function", machine.predict)
    values, objective = wanted(X) if machine.fit(X, y) else None, machine.objective_
    for given, rows in (
        (kernel, X.astype(np.float32)),
        (kernel, sp.csr_array(X)),
        (function, X),
        ("precomputed", function(X, X)),
    ):
        machine.set_params(kernel=given).fit(rows, y)
        assert machine.objective_ == pytest.approx(objective, rel=2e-6)
        np.testing.assert_allclose(wanted(rows), values, atol=1e-3)
        if not isinstance(machine, (DCSVC, LaSVC)):  # as of scikit-learn's classes
            assert sp.issparse(machine.dual_coef_) == sp.issparse(rows)


def test_folds_of_given_values_take_their_columns_too():
    K = pairwise_kernels(X, metric="rbf", gamma=0.5)
    search = GridSearchCV(KernelSVC(kernel="precomputed"), {"C": [0.1, 10.0]}, cv=3)
    assert search.fit(K, LABELS).best_score_ > 0.8
    found, expected = (
        KernelSVC(kernel=kernel, gamma=0.5, probability=True, random_state=0)
        .fit(rows, LABELS)
        .predict_proba(rows)
        for kernel, rows in (("precomputed", K), ("rbf", X))
    )
    np.testing.assert_allclose(found, expected, atol=1e-3)
