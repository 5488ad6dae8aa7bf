"""Losses of decision values and their gradients, for batches of rows.

Values F and targets Y are (b, q), with a column for each output. The hinges and `log`, which are
losses of margins y f, take targets -1 and +1; `multinomial` takes indicators of the class, 0 and 1;
`squared` takes numbers.

    hinge              max(0, 1 - y f)
    smoothed_hinge     0 | (1 - y f)^2 / 2 | 1/2 - y f      for y f >= 1 | in (0, 1) | <= 0
    log                log(1 + exp(-y f))
    multinomial        log sum_c exp(f_c) - f_y
    squared            (f - y)^2 / 2

The curvature of a row is the mean over outputs c of the second derivative of its loss in f_c; for
`multinomial` it is twice that mean, as 2 diag(p (1 - p)) - (diag(p) - p p') is positive
semidefinite for probabilities p. The hinges have no curvature.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, softmax


class Loss(NamedTuple):
    """A loss as functions of F and Y : (b, q)."""

    name: str
    value: Callable[[np.ndarray, np.ndarray], float]  # mean over rows of the sum over outputs
    gradient: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (b, q), of the loss of each row
    curvature: Callable[[np.ndarray], np.ndarray] | None = None  # of F; (b, 1), positive


def _hinge(F: np.ndarray, Y: np.ndarray) -> float:
    return _mean(np.maximum(0.0, 1.0 - Y * F))


def _hinge_gradient(F: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.where(Y * F < 1.0, -Y, 0.0)


def _smoothed_hinge(F: np.ndarray, Y: np.ndarray) -> float:
    slack = np.maximum(0.0, 1.0 - Y * F)
    return _mean(np.where(slack < 1.0, 0.5 * slack**2, slack - 0.5))


def _smoothed_hinge_gradient(F: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return -Y * np.clip(1.0 - Y * F, 0.0, 1.0)


def _logistic(F: np.ndarray, Y: np.ndarray) -> float:
    return _mean(np.logaddexp(0.0, -Y * F))


def _logistic_gradient(F: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return -Y * expit(-Y * F)


def _logistic_curvature(F: np.ndarray) -> np.ndarray:
    return (expit(F) * expit(-F)).mean(axis=1, keepdims=True)


def _multinomial(F: np.ndarray, Y: np.ndarray) -> float:
    return float(np.mean(logsumexp(F, axis=1) - (F * Y).sum(axis=1)))


def _multinomial_gradient(F: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return softmax(F, axis=1) - Y


def _multinomial_curvature(F: np.ndarray) -> np.ndarray:
    p = softmax(F, axis=1)
    return 2.0 * (p * (1.0 - p)).mean(axis=1, keepdims=True)


def _squared(F: np.ndarray, Y: np.ndarray) -> float:
    return 0.5 * _mean((F - Y) ** 2)


def _squared_gradient(F: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return F - Y


def _squared_curvature(F: np.ndarray) -> np.ndarray:
    return np.ones((len(F), 1))


def _mean(losses: np.ndarray) -> float:
    return float(losses.sum(axis=1).mean())


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("hinge", _hinge, _hinge_gradient),
        Loss("smoothed_hinge", _smoothed_hinge, _smoothed_hinge_gradient),
        Loss("log", _logistic, _logistic_gradient, _logistic_curvature),
        Loss("multinomial", _multinomial, _multinomial_gradient, _multinomial_curvature),
        Loss("squared", _squared, _squared_gradient, _squared_curvature),
    )
}
