"""The soft tree against its definition and finite differences, and its limit, the hard tree."""

import numpy as np
import pytest

from kbench.prediction.hyperplane_tree import HyperplaneTrees
from kbench.solvers.stochastic.local_tree import objective, soft_tree, train_tree, tree_sizes
from kbench.trace import Deadline, Trace


def problem(depth, n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.normal(size=(n, d)), np.ones((n, 1))])
    nodes, n_vectors = tree_sizes(depth)
    A = 0.7 * rng.normal(size=(n_vectors, d + 1))
    penalties = np.repeat([0.3, 0.2, 0.1], nodes)[:n_vectors]
    return X, np.sign(rng.normal(size=n)), rng.uniform(0.5, 2.0, n), A, penalties


def naive(X, A, depth, sigma, turn):
    """sum_k I_k tanh(sigma p_k'x) w_k'x with I_k by climbing from k to the root."""
    nodes, _ = tree_sizes(depth)
    W, P, Q = A[:nodes], A[nodes : 2 * nodes], A[2 * nodes :]
    values = np.zeros(len(X))
    for i, x in enumerate(X):
        for k in range(nodes):
            share, child = 1.0, k
            while child > 0:
                parent = (child - 1) // 2
                side = 1.0 if child == 2 * parent + 1 else -1.0
                share *= 0.5 * (1.0 + side * turn(Q[parent] @ x))
                child = parent
            values[i] += share * np.tanh(sigma * P[k] @ x) * (W[k] @ x)
    return values


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_soft_tree_is_its_definition(depth):
    X, _, _, A, _ = problem(depth)
    values, _ = soft_tree(X @ A.T, depth, 0.8, 1.7)
    expected = naive(X, A, depth, 0.8, lambda u: np.tanh(1.7 * u))
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", ["w", "p", "q"])
@pytest.mark.parametrize("depth", [1, 3])
def test_gradient_of_every_block_is_the_slope(depth, block):
    X, y, weights, A, penalties = problem(depth)
    nodes, n_vectors = tree_sizes(depth)
    start = {"w": 0, "p": nodes, "q": 2 * nodes}[block]
    stop = {"w": nodes, "p": 2 * nodes, "q": n_vectors}[block]
    arguments = X, y, weights, penalties, depth, 0.8, 1.7
    _, gradient = objective(A, *arguments)
    slopes = np.zeros_like(A)
    for index in np.ndindex(A.shape):
        if start <= index[0] < stop:
            step = np.zeros_like(A)
            step[index] = 1e-6
            up, down = objective(A + step, *arguments)[0], objective(A - step, *arguments)[0]
            slopes[index] = (up - down) / 2e-6
    np.testing.assert_allclose(gradient[start:stop], slopes[start:stop], atol=1e-8)


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_hard_tree_is_the_limit_of_soft_ones(depth):
    X, _, _, A, _ = problem(depth)
    nodes, n_vectors = tree_sizes(depth)
    trees = np.zeros((1, 3 * nodes, A.shape[1]))
    trees[0, :n_vectors] = A
    trees = trees.reshape(1, 3, nodes, -1).swapaxes(1, 2)
    hard = HyperplaneTrees(trees, 0.8, None)(X[:, :-1])[:, 0]
    np.testing.assert_allclose(hard, naive(X, A, depth, 0.8, np.sign), rtol=2e-5, atol=2e-6)
    distances = [
        np.abs(soft_tree(X @ A.T, depth, 0.8, s)[0] - hard).max() for s in (1.0, 30.0, 1e7)
    ]
    assert distances[-1] < 1e-5
    assert depth == 0 or distances[0] > 1e-2


@pytest.mark.parametrize("schedule", ["pegasos", "adam"])
def test_training_finds_four_squares(schedule):
    rng = np.random.RandomState(0)
    X = np.hstack([rng.uniform(-1, 1, (2000, 2)), np.ones((2000, 1))]).astype(np.float32)
    y = np.sign(X[:, 0] * X[:, 1]).astype(np.float32)
    depth, lam = 3, 0.01 if schedule == "pegasos" else 1e-5
    _, n_vectors = tree_sizes(depth)
    A, n_iter = train_tree(
        lambda rows: X[rows],
        y,
        np.ones(2000, np.float32),
        np.full(n_vectors, lam),
        depth,
        1.0,
        rng,
        schedule=schedule,
        max_iter=1500,
        batch_size=44,
        rate=0.02,
        deadline=Deadline(None, Trace()),
        trace=Trace(),
    )
    assert n_iter == 1500
    values, _ = soft_tree((X @ A.T).astype(np.float64), depth, 1.0, 1e6)
    assert np.mean(np.sign(values) == y) > 0.96
