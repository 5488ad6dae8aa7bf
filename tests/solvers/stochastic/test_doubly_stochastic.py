"""Doubly stochastic descent against what it is in closed form."""

import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from kbench.approximation.seeded.named_blocks import seeded_features
from kbench.solvers.stochastic.doubly_stochastic import DoublyStochastic, Memory, ShardSums
from kbench.solvers.stochastic.losses import LOSSES

SETTINGS = {
    "nu": 0.0,
    "step_size": 1.0,
    "step_decay": 0.0,
    "ridge": 1e-7,
    "preconditioned": False,
    "max_blocks": None,
}


def problem(n=60, q=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return X, rng.normal(size=(n, q))


def descent(loss="squared", n_features=32, q=2, **settings):
    features = seeded_features("rbf", 3, n_features, 5, 0.5)
    return DoublyStochastic(features, loss, q, **{**SETTINGS, **settings})


def explicit(machine, block, X):
    out = np.empty((len(X), machine.features.n_features), np.float32)
    machine.features.fill(block, X, out)
    return out.astype(np.float64)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_derivatives(name):
    loss = LOSSES[name]
    rng = np.random.default_rng(1)
    F = rng.normal(size=(5, 3))
    Y = rng.choice([-1.0, 1.0], size=(5, 3))
    if name == "multinomial":
        Y = np.eye(3)[rng.integers(3, size=5)]
    for f, y, g in zip(F, Y, loss.gradient(F, Y), strict=True):
        numeric = approx_fprime(f, lambda f, y=y: loss.value(f[None], y[None]), 1e-7)
        np.testing.assert_allclose(g, numeric, atol=1e-5)


@pytest.mark.parametrize(("ridge", "nu", "atol"), [(1e-7, 0.0, 1e-3), (1e-2, 0.1, 1e-5)])
def test_a_preconditioned_step_on_all_rows_is_ridge_regression_on_its_block(ridge, nu, atol):
    X, Y = problem()
    machine = descent(preconditioned=True, ridge=ridge, nu=nu)
    machine.step(X, Y)
    Z = explicit(machine, 0, X)
    w = np.linalg.solve(Z.T @ Z / len(X) + (nu + ridge) * np.eye(32), Z.T @ Y / len(X))
    np.testing.assert_allclose(machine.values(X), Z @ w, atol=atol)


@pytest.mark.parametrize("loss", ["squared", "smoothed_hinge", "log"])
@pytest.mark.parametrize("max_blocks", [None, 3])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_steps_are_those_of_the_algorithm_with_explicit_features(loss, max_blocks, preconditioned):
    X, Y = problem()
    Y = Y if loss == "squared" else np.sign(Y)
    options = {"nu": 0.3, "step_size": 0.7, "step_decay": 0.5, "ridge": 1e-2}
    machine = descent(loss, max_blocks=max_blocks, preconditioned=preconditioned, **options)
    A: list[np.ndarray] = []
    rng = np.random.default_rng(2)
    for t in range(8):
        rows = rng.choice(len(X), 20, replace=False)
        F = sum((explicit(machine, j, X[rows]) @ A[j] for j in range(len(A))), np.zeros((20, 2)))
        R = LOSSES[loss].gradient(F, Y[rows])
        assert machine.step(X[rows], Y[rows]) == pytest.approx(LOSSES[loss].value(F, Y[rows]))
        gamma = 0.7 / (1 + 0.5 * t)
        if len(A) == max_blocks:
            # The choice is the machine's: the block that did not only decay.
            moved = [
                np.abs(machine.scale * machine.coef[j] - (1 - gamma * 0.3) * A[j]).max()
                for j in range(len(A))
            ]
            j = int(np.argmax(moved))
        else:
            A.append(np.zeros((32, 2)))
            j = len(A) - 1
        Z = explicit(machine, j, X[rows])
        G = Z.T @ R / 20
        new = (1 - gamma * 0.3) * A[j] - gamma * G
        if preconditioned:
            H = Z.T @ Z / 20 + 0.31 * np.eye(32)
            new = A[j] - gamma * np.linalg.solve(H, G + 0.3 * A[j])
        A = [(1 - gamma * 0.3) * B for B in A]
        A[j] = new
    assert len(machine.coef) == len(A) == (max_blocks or 8)
    for j, B in enumerate(A):
        np.testing.assert_allclose(machine.scale * machine.coef[j], B, rtol=1e-3, atol=1e-5)


def test_values_that_are_kept_are_those_that_are_computed_anew():
    X, Y = problem()
    options = {"nu": 0.999, "step_size": 1.0, "average_from": 3}  # folds the scale often
    kept, anew = descent(**options), descent(**options)
    kept.memories = [Memory(30, 2), Memory(30, 2)]
    for t in range(12):
        rows = slice(0, 30) if t % 2 else slice(30, 60)
        kept.step(X[rows], Y[rows], kept.memories[t % 2])
        anew.step(X[rows], Y[rows])
    # Values of blocks 0 .. t-1 at step t, and the block of the step.
    assert anew.features.n_features_computed == (66 + 12) * 30 * 32
    assert kept.features.n_features_computed == (10 + 11 + 12) * 30 * 32
    np.testing.assert_allclose(kept.values(X), anew.values(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_a_shard_are_sent_with_half_of_their_gram_matrix(dtype):
    rng = np.random.RandomState(0)
    gram = np.asfortranarray(np.triu(rng.randn(60, 60)).astype(dtype))
    sums = ShardSums(rng.randn(5, 2), 1.5, rng.randn(60, 2), gram)
    sent = pickle.dumps(sums, 5)
    assert len(sent) < 0.55 * gram.nbytes + 3000
    for wanted, found in zip(sums, pickle.loads(sent), strict=True):
        np.testing.assert_array_equal(found, wanted)
    plain = pickle.loads(pickle.dumps(sums._replace(gram=None)))
    assert plain.gram is None
    assert plain.loss == 1.5


@pytest.mark.parametrize("max_blocks", [None, 4])
@pytest.mark.parametrize("nu", [0.0, 0.3, 0.99999])
def test_the_average_is_the_mean_of_the_functions_after_the_last_steps(max_blocks, nu):
    X, Y = problem()
    machine = descent(nu=nu, average_from=5, max_blocks=max_blocks)
    after = []
    for _ in range(10):
        machine.step(X, Y)
        after.append(machine.values(X))
    mean = np.mean(after[5:], axis=0)
    np.testing.assert_allclose(machine.averaged().values(X), mean, rtol=1e-4, atol=1e-5)


def test_a_step_that_forgets_everything():
    X, Y = problem()
    machine = descent(nu=1.0)
    for _ in range(3):
        machine.step(X, Y)
    Z = explicit(machine, 2, X)
    before = explicit(machine, 1, X) @ (machine.scale * machine.coef[1])
    assert np.abs(before).max() < 1e-7
    assert np.abs(machine.values(X) - Z @ (machine.scale * machine.coef[2])).max() < 1e-7


def test_theta_over_t_steps_converge_at_the_rate_of_the_theory():
    """E ||f_t - f*||^2 = O(1/t), Theorem 6: a slope of -1, of a mean of runs."""
    X, Y = problem(40, 1)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    nu = 0.5
    best = K @ np.linalg.solve(K + nu * len(X) * np.eye(len(X)), Y)
    checked = np.array([20, 60, 180])
    errors = np.zeros(len(checked))
    for seed in range(6):
        machine = descent(n_features=64, q=1, nu=nu, step_size=3.0, step_decay=1.0)
        machine.features.seed = seed
        rng = np.random.default_rng(seed)
        for t in range(1, checked[-1] + 1):
            rows = rng.integers(len(X), size=10)
            machine.step(X[rows], Y[rows])
            if t in checked:
                errors[checked == t] += np.mean((machine.values(X) - best) ** 2)
    slope = np.polyfit(np.log(checked), np.log(errors), 1)[0]
    assert -1.5 < slope < -0.6


def test_descents_that_fail_say_what_is_wrong():
    X, Y = problem()
    machine = descent(step_size=1e30)
    with pytest.raises(ValueError, match=r"beyond all bounds by step 0: step_size=1e\+30"):
        machine.step(X, 1e8 * Y)
    machine = descent(preconditioned=True, ridge=1e-30)
    with pytest.raises(ValueError, match="ridge=1e-30 is too small"):
        machine.step(np.zeros((60, 3), np.float32), Y)
