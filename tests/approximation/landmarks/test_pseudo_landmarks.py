"""Algorithm 1 of DC-Pred++: what the best W is, and what more columns do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel

from kbench.approximation.landmarks.pseudo_landmarks import (
    PSEUDO,
    PseudoLandmarks,
    make_pseudo_landmarks,
    optimal_factor,
)
from kbench.clustering import weighted_kmeans


def digits(n=600):
    X, _ = load_digits(return_X_y=True)
    return X[:n] / 16.0


def relative_error(columns, G):
    features = columns @ optimal_factor(columns, G)
    return np.linalg.norm(G - features @ features.T) / np.linalg.norm(G)


def test_without_pseudo_landmarks_the_factor_is_the_least_squares_factor():
    X = digits(300)
    G = rbf_kernel(X, gamma=0.1)
    C = PseudoLandmarks(X[:12], 0.1)(X)
    factor = optimal_factor(C, G)
    inverse = np.linalg.pinv(C)
    np.testing.assert_allclose(factor @ factor.T, inverse @ G @ inverse.T, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.02, 0.1])
def test_the_best_w_is_no_worse_than_nystroms(gamma):
    X = digits()
    G = rbf_kernel(X, gamma=gamma)
    centres = weighted_kmeans(X, np.ones(len(X)), 15, np.random.RandomState(0))
    C = PseudoLandmarks(centres, gamma)(X)
    nystrom = C @ np.linalg.pinv(rbf_kernel(centres, gamma=gamma)) @ C.T
    best = relative_error(C, G)
    assert best <= np.linalg.norm(G - nystrom) / np.linalg.norm(G) * (1 + 1e-9)


@given(seed=st.integers(0, 100), m=st.integers(2, 8))
@settings(max_examples=15)
def test_more_columns_never_raise_the_error(seed, m):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(120, 3))
    G = rbf_kernel(X, gamma=0.5)
    pairs = np.column_stack(np.triu_indices(m))
    errors = [
        relative_error(PseudoLandmarks(X[:m], 0.5, "monomials", pairs=pairs[:p])(X), G)
        for p in range(0, len(pairs) + 1, 3)
    ]
    assert np.all(np.diff(errors) <= 1e-4)


def test_pseudo_landmarks_lower_the_error_on_digits():
    X = digits(1000)
    G = rbf_kernel(X, gamma=0.1)
    centres = weighted_kmeans(X, np.ones(len(X)), 20, np.random.RandomState(0))
    error = {
        pseudo: relative_error(
            make_pseudo_landmarks(centres, 0.1, pseudo, None, X, np.random.RandomState(1))(X), G
        )
        for pseudo in PSEUDO
    }
    assert error["triangle"] <= min(error["lower"], error["upper"]) + 1e-6
    assert max(error["lower"], error["upper"]) < 0.95 * error["none"]
    assert error["monomials"] < 0.7 * error["none"]


def test_triangle_columns_bound_the_kernel():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 4))
    exact = rbf_kernel(X, X[:9], gamma=0.3)
    for pseudo, sign in (("lower", 1.0), ("upper", -1.0)):
        columns = PseudoLandmarks(X[50:60], 0.3, pseudo, points=X[:9])(X)[:, 10:]
        assert np.all(sign * (columns - exact) >= -1e-7)


def test_monomials_are_products():
    X = digits(50)
    pairs = np.array([[0, 0], [0, 3], [2, 3]])
    columns = PseudoLandmarks(X[:4], 0.1, "monomials", pairs=pairs)(X)
    c = rbf_kernel(X, X[:4], gamma=0.1)
    np.testing.assert_allclose(columns[:, :4], c)
    np.testing.assert_allclose(columns[:, 4:], c[:, pairs[:, 0]] * c[:, pairs[:, 1]])
