"""Weights of rows: a whole weight is that many copies of the row, wherever the method is exact."""

import numpy as np
import pytest

from kbench.approximation import BKA, MEKA, HSSMatrix, RandomFourierFeatures
from kbench.methods import (
    ApproximateRidge,
    ApproximateRidgeClassifier,
    DoublySGDClassifier,
    DoublySGDRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    KernelSVR,
    LaSVC,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4))
VALUES = np.sin(X[:, 0]) + X[:, 1]
LABELS = np.digitize(VALUES, [-0.5, 0.8])
WEIGHT = RNG.integers(0, 4, 80)
NEW = RNG.normal(size=(50, 4))
FOURIER = RandomFourierFeatures(64, gamma=0.2, random_state=0)
# One step on all rows in each pass.
SGD = {"block_size": 64, "batch_size": 1000, "n_epochs": 3, "gamma": 0.2, "random_state": 0}


@pytest.mark.filterwarnings("ignore:rank=80 is more than n_samples=58:UserWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        KernelRidge(0.3, kernel="rbf", gamma=0.2),
        KernelRidge(0.3, kernel="rbf", gamma=0.2, solver="pcg"),
        KernelRidgeClassifier(0.3, gamma=0.2),
        ApproximateRidge(FOURIER, alpha=0.3),
        ApproximateRidge(FOURIER, alpha=0.3, solver="cg", tol=1e-8),
        ApproximateRidge(FOURIER, alpha=0.3, solver="pcg", tol=1e-8),
        ApproximateRidgeClassifier(FOURIER, alpha=0.3),
        ApproximateRidge(BKA(1, gamma=0.2), alpha=0.3),
        ApproximateRidge(BKA(1, gamma=0.2), alpha=0.3, solver="pcg", tol=1e-8),
        # Of full rank: G itself, whichever rows are the landmarks.
        ApproximateRidge(MEKA(80, n_clusters=1, gamma=0.2, landmarks="uniform"), alpha=0.3),
        DoublySGDRegressor(**SGD),
        DoublySGDRegressor(**SGD, preconditioned=False, step_size=0.5, n_shards=3),
        DoublySGDClassifier(**SGD),
        DoublySGDClassifier(**SGD, loss="smoothed_hinge"),
        DoublySGDClassifier(**SGD | {"n_epochs": 9}, nu=0.05),
        KernelSVC(gamma=0.2, tol=1e-6),
        KernelSVR(gamma=0.2, tol=1e-6),
        LaSVC(20, gamma=0.2, tol=1e-6, random_state=0),
    ],
    ids=repr,
)
def test_a_whole_weight_is_that_many_copies(estimator):
    y = LABELS if hasattr(estimator, "decision_function") else VALUES
    values = getattr(estimator, "decision_function", estimator.predict)
    weighted = values.__func__(estimator.fit(X, y, sample_weight=WEIGHT), NEW)
    plain = values.__func__(estimator.fit(X, y, sample_weight=np.ones(80)), NEW)
    copies = values.__func__(estimator.fit(X.repeat(WEIGHT, axis=0), y.repeat(WEIGHT)), NEW)
    np.testing.assert_allclose(weighted, copies, atol=1e-3)
    assert np.abs(plain - copies).max() > 1e-2


def test_a_stream_takes_weights_but_cannot_balance_classes():
    parameters = {k: v for k, v in SGD.items() if k != "n_epochs"}
    fitted = DoublySGDClassifier(**parameters).fit(X, LABELS, np.full(80, 5.0))
    stream = DoublySGDClassifier(**parameters).partial_fit(X, LABELS, sample_weight=np.ones(80))
    np.testing.assert_allclose(stream.decision_function(NEW), fitted.decision_function(NEW), 1e-2)
    with pytest.raises(ValueError, match="needs all rows"):
        DoublySGDClassifier(**parameters, class_weight="balanced").partial_fit(X, LABELS)


def test_an_approximation_that_takes_no_weights_says_so():
    with pytest.raises(ValueError, match="HSSKernel takes no sample_weight"):
        ApproximateRidge(HSSMatrix(leaf_size=16)).fit(X, VALUES, WEIGHT)
