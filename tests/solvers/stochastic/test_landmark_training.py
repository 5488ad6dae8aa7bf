"""Gradients of trained landmarks against finite differences, and what training reaches."""

import numpy as np
import pytest

from kbench.solvers.stochastic.landmark_training import train_landmarks


def model(Z, landmarks, log_widths, coef, constant):
    squares = ((Z[:, :, None] - landmarks) ** 2).sum(axis=1)
    return np.exp2(-np.exp(log_widths) * squares) @ coef.T + constant


def loss(parts, Z, targets, weights, margins):
    values = model(Z, *parts)
    residual = values - targets
    if margins:
        done = ((targets >= 1) & (residual > 0)) | ((targets <= -1) & (residual < 0))
        residual = np.where(done, 0.0, residual)
    # The kernel weights the residual, once for each row.
    return 0.5 * np.sum(weights[:, None] * residual**2) / len(Z)


def problem(seed=0, n=24, f=3, m=8, q=2):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, f))
    targets = np.clip(2 * rng.normal(size=(n, q)), -1, 1)
    parts = (
        rng.normal(size=(f, m)),
        0.3 * rng.normal(size=m),
        rng.normal(size=(q, m)),
        rng.normal(size=q),
    )
    return Z, targets, rng.uniform(0.5, 2.0, n), parts


def as_float32(*arrays):
    return [np.ascontiguousarray(array, np.float32) for array in arrays]


@pytest.mark.parametrize("margins", [False, True])
def test_steps_go_down_the_slope_of_every_parameter(margins):
    Z, targets, weights, parts = problem()
    trained = as_float32(*parts)
    # Two passes over one batch: Adam's first step is half the rate in the direction of the slope's
    # sign, the second has length zero.
    train_landmarks(*as_float32(Z, targets, weights), margins, *trained, 2, 1e-3, 1e-3, 0)
    for part, step in enumerate((5e-4, 2.5e-4, 5e-4, 5e-4)):
        for index in np.ndindex(parts[part].shape):
            shifted = [array.copy() for array in parts]
            shifted[part][index] += 1e-5
            up = loss(shifted, Z, targets, weights, margins)
            shifted[part][index] -= 2e-5
            slope = (up - loss(shifted, Z, targets, weights, margins)) / 2e-5
            if abs(slope) > 1e-2:
                moved = trained[part][index] - parts[part][index]
                assert moved == pytest.approx(-step * np.sign(slope), rel=0.01)


@pytest.mark.parametrize("margins", [False, True])
def test_training_lowers_the_loss_along_the_gradient(margins):
    Z, targets, weights, parts = problem(n=32)
    before = loss(parts, Z, targets, weights, margins)
    trained = as_float32(*parts)
    train_landmarks(*as_float32(Z, targets, weights), margins, *trained, 400, 0.02, 0.02, 0)
    assert loss(trained, Z, targets, weights, margins) < 0.3 * before


def test_a_function_of_the_model_is_found_again():
    rng = np.random.default_rng(1)
    Z = rng.uniform(-2, 2, size=(500, 2))
    truth = (rng.normal(size=(2, 4)), np.zeros(4), rng.normal(size=(1, 4)), np.array([0.3]))
    targets = model(Z, *truth)
    parts = (truth[0] + 0.3 * rng.normal(size=(2, 4)), np.zeros(4), np.zeros((1, 4)), np.zeros(1))
    trained = as_float32(*parts)
    train_landmarks(*as_float32(Z, targets, np.ones(500)), False, *trained, 200, 0.05, 0.05, 0)
    assert np.abs(model(Z, *trained) - targets).mean() < 0.05 * np.abs(targets).mean()


def test_the_same_seed_is_the_same_machine():
    Z, targets, weights, parts = problem()
    runs = []
    for _ in range(2):
        trained = as_float32(*parts)
        train_landmarks(*as_float32(Z, targets, weights), True, *trained, 5, 0.05, 0.05, 3)
        runs.append(np.concatenate([array.ravel() for array in trained]))
    np.testing.assert_array_equal(*runs)
