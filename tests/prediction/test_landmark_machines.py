"""Packed local machines against their formulas."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from kbench.approximation.landmarks.pseudo_landmarks import PSEUDO, make_pseudo_landmarks
from kbench.clustering import kmeans_tree
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import LocalLandmarks, float32_offset


def machines(X, tree, pseudo, n_landmarks, rng, n_outputs=2):
    """Local machines, and their values at rows of their leaf by the formula."""
    packed, formulas = [LandmarkMachine(np.array([3.0, -1.0]))], [lambda A: [3.0, -1.0]]
    for _ in range(tree.n_leaves - 1):
        chosen = rng.choice(len(X), rng.randint(1, n_landmarks + 1), replace=False)
        landmarks = X[chosen].astype(np.float64)
        columns = make_pseudo_landmarks(landmarks, 0.3, pseudo, rng.randint(1, 40), X, rng)
        coef = rng.normal(size=(columns.n_columns, n_outputs))
        constant = rng.normal(size=n_outputs)
        gammas = np.full(len(landmarks), 0.3)
        packed.append(
            LandmarkMachine(constant, landmarks, gammas, coef, None, columns.pairs, columns.spans)
        )
        formulas.append(lambda A, c=columns, w=coef, b=constant: b + c(A) @ w)
    return packed, formulas


@pytest.mark.parametrize("pseudo", PSEUDO)
@pytest.mark.parametrize("d", [1, 6, 16, 23, 40])
def test_values_are_the_formulas(pseudo, d):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(700, d)).astype(np.float32)
    tree = kmeans_tree(X, 6, rng)
    packed, formulas = machines(X, tree, pseudo, 37, rng)
    local = LocalLandmarks(tree, packed, d, pseudo)
    labels, values = tree.assign(X), local(X)
    for leaf, formula in enumerate(formulas):
        rows = labels == leaf
        np.testing.assert_allclose(values[rows] - formula(X[rows]), 0.0, atol=2e-4)
    np.testing.assert_array_equal(local(X.astype(np.float64)), values)
    np.testing.assert_array_equal(local(sp.csr_array(X)), values)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(local))(X), values)
    for size in (1, 3, 17, 64):
        batches = [local(X[i : i + size]) for i in range(0, 700, size)]
        np.testing.assert_array_equal(np.concatenate(batches), values)


def test_each_landmark_has_its_width_and_each_leaf_its_features():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 9)).astype(np.float32)
    tree = kmeans_tree(X, 4, rng)
    packed, expected, labels = [], np.zeros(300), tree.assign(X)
    for leaf in range(4):
        features = rng.permutation(9)[:5]
        landmarks, gammas = rng.normal(size=(20, 5)), rng.uniform(0.1, 2.0, 20)
        coef = rng.normal(size=(20, 1))
        packed.append(LandmarkMachine(np.zeros(1), landmarks, gammas, coef, features))
        rows = labels == leaf
        squares = ((X[rows][:, None, features] - landmarks) ** 2).sum(axis=2)
        expected[rows] = (np.exp(-gammas * squares) @ coef)[:, 0]
    np.testing.assert_allclose(LocalLandmarks(tree, packed, 9)(X)[:, 0], expected, atol=1e-5)


@pytest.mark.parametrize("first", [0, 20])
def test_one_leaf_on_some_of_the_features(first):
    # As many rows as go through tiles of sixteen, which read features in order.
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 40)).astype(np.float32)
    features = np.arange(first, first + 20)
    landmarks, gammas = rng.normal(size=(20, 20)), rng.uniform(0.05, 0.1, 20)
    coef = rng.normal(size=(20, 1))
    machine = LandmarkMachine(np.zeros(1), landmarks, gammas, coef, features)
    squares = ((X[:, None, features] - landmarks) ** 2).sum(axis=2)
    expected = np.exp(-gammas * squares) @ coef
    local = LocalLandmarks(kmeans_tree(X, 1, rng), [machine], 40)
    np.testing.assert_allclose(local(X), expected, atol=1e-5)
    np.testing.assert_allclose(local(X[:1]), expected[:1], atol=1e-5)


def test_rows_of_another_width_are_refused():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(50, 7)).astype(np.float32)
    tree = kmeans_tree(X, 3, rng)
    local = LocalLandmarks(tree, machines(X, tree, "none", 5, rng)[0], 7)
    for width in (1, 6, 8):
        with pytest.raises(ValueError, match=f"X has {width} features, the model expects 7"):
            local(np.zeros((5, width), np.float32))
        with pytest.raises(ValueError, match=f"X has {width} features, the tree has 7"):
            tree.assign(np.zeros((5, width), np.float32))


@pytest.mark.parametrize(("d", "m"), [(64, 1), (123, 17), (256, 48)])
def test_wide_rows_of_one_leaf_go_through_tiles_and_nothing_cancels(d, m):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(500, d)).astype(np.float32)
    tree = kmeans_tree(X, 1, rng)
    landmarks, coef, constant = X[:m].astype(float), rng.normal(size=(m, 3)), rng.normal(size=3)
    for gamma in (0.1 / d, 1.0):
        local = LocalLandmarks(
            tree, [LandmarkMachine(constant, landmarks, np.full(m, gamma), coef)], d
        )
        squares = ((X[:, None].astype(float) - landmarks) ** 2).sum(axis=2)
        expected = constant + np.exp(-gamma * squares) @ coef
        np.testing.assert_allclose(local(X), expected, atol=1e-5)
        # Tiles of any shape, one row's included, sum in the same order.
        sizes = [1, 2, 3, 5, 6, 7, 59, 60, 61, 296]
        parts = np.split(X, np.cumsum(sizes)[:-1])
        np.testing.assert_array_equal(np.vstack([local(part) for part in parts]), local(X))


@pytest.mark.parametrize("d", [1, 15, 16, 37])
def test_rows_that_are_not_finite_are_refused_wherever_the_entry_is(d):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, d)).astype(np.float32)
    tree = kmeans_tree(X, 3, rng)
    local = LocalLandmarks(tree, machines(X, tree, "none", 5, rng)[0], d)
    for value in (np.nan, np.inf, -np.inf):
        for row, column in ((0, 0), (199, d - 1), (100, d // 2)):
            bad = X.copy()
            bad[row, column] = value
            for rows in (bad, bad.astype(np.float64), sp.csr_array(bad)):
                with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
                    local(rows)
    large = np.full((3, d), np.finfo(np.float32).max, np.float32)
    assert np.isfinite(local(large)).all()


def test_numbers_at_any_address_give_the_same_values():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(100, 7)).astype(np.float32)
    tree = kmeans_tree(X, 3, rng)
    local = LocalLandmarks(tree, machines(X, tree, "none", 40, rng)[0], 7)
    expected = local(X)
    for shift in range(0, 16, 5):
        room = np.empty(local.table.size + 16, np.float32)
        room[shift : shift + local.table.size] = local.table
        local.table = room[shift : shift + local.table.size]
        np.testing.assert_array_equal(local(X), expected)
        assert local.table.ctypes.data % 64 == 0


def test_rows_far_from_the_origin_are_shifted_before_rounding():
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert float32_offset(X) is None
    np.testing.assert_allclose(float32_offset(X + 1e6), X.mean(axis=0) + 1e6)
    tree = kmeans_tree(X, 1, np.random.RandomState(0))
    machine = LandmarkMachine(np.zeros(1), X[:5], np.ones(5), np.ones((5, 1)))
    offset = np.full(2, 1e6)
    near, far = (
        LocalLandmarks(tree, [machine], 2),
        LocalLandmarks(tree, [machine], 2, "none", offset),
    )
    np.testing.assert_allclose(far(X + 1e6), near(X), atol=1e-5)
