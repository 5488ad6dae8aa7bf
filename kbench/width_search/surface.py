"""Gaussian process of the logarithm of held-out errors over kernel width, C and number of rows.

A point is (u, v, t, local): u = log2 of the width in units of the median distance, v = log2 C,
t = log2 (training rows / all rows), and local = 1 for models of neighbourhoods at the density of
the data, else 0. The model is

    log error = shape(u - s t, v) + t slope(u, v) + local deviation(u, v) + offset of the rung,

because models get more local with more rows: the best u moves by s for each doubling. The drift
s is the most likely one of a few values. The prior mean is the worst error, so that the search does
not take an unseen corner for a good one.
"""

import numpy as np
import scipy.linalg
from scipy.special import ndtr

from kbench.intrinsics.products import matmul

# Drifts among which the most likely one is taken, in octaves of width per doubling of the rows.
_DRIFTS = (0.0, 0.2, 0.4, 0.6)
# Correlation lengths in octaves of width and of C. With these and a Matern kernel, the log errors
# of eight development sets have e^230 times the likelihood that a Gaussian one of lengths 2.2 and
# 2.8 gives; that overshoots beside slopes.
_LENGTHS = (8.8, 11.2)
# Deviation of the shape as a multiple of the deviation of the log errors seen, and its least value.
_DEVIATIONS, _MIN_DEVIATION = 1.5, 0.2
# Deviation of what changes the shape, per doubling of the rows and in neighbourhoods, relative to
# that of the shape.
_CHANGE = 0.2
# Deviation of the offsets that all points of a rung have in common: of every rung, per doubling of
# the rows, and of neighbourhoods.
_OFFSET = 0.5
# Deviation of a log error beside its sampling error, alone and together with its rung's.
_NOISE = 0.03
# An expected improvement of the log error below this is not worth a model.
_MIN_IMPROVEMENT = 3e-4
# Points whose expected log error is this much above the best are not tried.
_HOPELESS = 0.3


class Surface:
    """The process after m observations.

    Parameters
    ----------
    points : (m, 4) of (u, v, t, local)
    log_errors : (m,)
    rungs : (m,) ints. Points of one rung share their rows.
    deviations : (m,). Sampling errors of `log_errors`.

    Attributes
    ----------
    drift : float
    """

    def __init__(
        self, points: np.ndarray, log_errors: np.ndarray, rungs: np.ndarray, deviations: np.ndarray
    ) -> None:
        self._points, self._prior = points, float(log_errors.max())
        self._deviation = max(_DEVIATIONS * float(np.std(log_errors)), _MIN_DEVIATION)
        noise = np.diag(deviations**2 + _NOISE**2)
        noise += _NOISE**2 * (rungs[:, None] == rungs)
        residual = log_errors - self._prior
        best = -np.inf
        for drift in _DRIFTS:
            factor = scipy.linalg.cholesky(
                self._covariance(points, points, drift) + noise, lower=True
            )
            white = scipy.linalg.solve_triangular(factor, residual, lower=True)
            likelihood = matmul(-0.5 * white, white) - np.log(factor.diagonal()).sum()
            if likelihood > best:
                best, self.drift, self._factor = likelihood, drift, factor
                self._weights = scipy.linalg.solve_triangular(factor.T, white)

    def _covariance(self, P: np.ndarray, Q: np.ndarray, drift: float) -> np.ndarray:
        du, dv = np.subtract.outer(P[:, 0], Q[:, 0]), np.subtract.outer(P[:, 1], Q[:, 1])
        moved = du - drift * np.subtract.outer(P[:, 2], Q[:, 2])
        doublings, local = np.outer(P[:, 2], Q[:, 2]), np.outer(P[:, 3], Q[:, 3])
        shape, slow = _matern(moved, dv), _matern(du, dv)
        slopes = _CHANGE**2 * (doublings + local) * slow
        offsets = _OFFSET**2 * (1.0 + doublings + local)
        return self._deviation**2 * (shape + slopes) + offsets

    def mean(self, Q: np.ndarray) -> np.ndarray:
        """Expected log errors at points Q : (q, 4); (q,)."""
        return self._prior + matmul(self._covariance(Q, self._points, self.drift), self._weights)

    def _moments(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (q,) and covariance (q, q) of the log errors at points Q : (q, 4)."""
        cross = self._covariance(self._points, Q, self.drift)
        half = scipy.linalg.solve_triangular(self._factor, cross, lower=True)
        return self.mean(Q), self._covariance(Q, Q, self.drift) - matmul(half.T, half)

    def propose(
        self,
        candidates: np.ndarray,
        rung: tuple[float, float],
        goal: tuple[float, float],
        count: int,
        known: np.ndarray,
    ) -> np.ndarray:
        """Parameters to try on the next rung.

        Parameters
        ----------
        candidates : (q, 2) of (u, v)
        rung : (t, local) of the next models
        goal : (t, local). Where the parameters are to be best.
        known : (q,) bool. Candidates that have been tried on the rows of the rung already.

        Returns
        -------
        (at most count, 2)
            The best at the goal, the best of the rung (the two show the drift), then those of the
            most expected improvement at the goal, each given that those before it are known. None
            if nothing is expected to improve.
        """
        q = len(candidates)
        at_goal = np.column_stack([candidates, np.tile(goal, (q, 1))])
        of_rung = np.column_stack([candidates, np.tile(rung, (q, 1))])
        mean, covariance = self._moments(np.vstack([at_goal, of_rung]))
        here, mean = int(mean[q:].argmin()), mean[:q]
        best = int(mean.argmin())
        chosen = [i for i in dict.fromkeys((best, here)) if not known[i]][:count]
        useless = known | (mean > mean[best] + _HOPELESS)
        for i in chosen:
            covariance = _conditioned(covariance, q + i)
        while len(chosen) < count:
            variance = covariance.diagonal()[:q] + covariance[best, best] - 2 * covariance[best, :q]
            deviation = np.sqrt(np.maximum(variance, 1e-12))
            gain = (mean[best] - mean) / deviation
            density = np.exp(-(gain**2) / 2.0) / np.sqrt(2.0 * np.pi)
            improvement = deviation * (gain * ndtr(gain) + density)
            improvement[useless] = improvement[chosen] = 0.0
            if improvement.max() < _MIN_IMPROVEMENT:
                break
            chosen.append(int(improvement.argmax()))
            covariance = _conditioned(covariance, q + chosen[-1])
        return candidates[sorted(chosen)]


def _matern(du: np.ndarray, dv: np.ndarray) -> np.ndarray:
    """Correlation of smoothness 3/2 at distances du and dv."""
    r = np.sqrt(3.0 * ((du / _LENGTHS[0]) ** 2 + (dv / _LENGTHS[1]) ** 2))
    return (1.0 + r) * np.exp(-r)


def _conditioned(covariance: np.ndarray, i: int) -> np.ndarray:
    """Covariance given an observation of point i."""
    column = covariance[:, i]
    return covariance - np.outer(column, column) / (column[i] + _NOISE**2)
