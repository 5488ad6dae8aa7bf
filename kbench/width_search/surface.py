"""Gaussian process of the logarithm of held-out errors over gamma, C and number of rows.

A point is (u, v, t, local): u = log2 of gamma in units of the gamma of the median distance
(`PreparedRows.unit`), v = log2 of C or of the ridge in their units, t = log2 (training rows / all
rows), and local = 1 for models of neighbourhoods at the density of the data, else 0. The model is

    log error = shape(u - s t, v) + t slope(u, v) + local * change(u, v) + offset + noise
    offset = a + b t + c local,

where noise has one term for each point and one for each rung. Models get more local with more
rows: the best u grows by s with each doubling. The drift s is the most likely one of a few values.
The prior mean is the worst error, so that the search does not take an unseen corner for a good one.
"""

import numpy as np
import scipy.linalg
from scipy.special import ndtr

from kbench.intrinsics.products import matmul
from kbench.width_search import constants


class Surface:
    """The process after m observations.

    Parameters
    ----------
    points : (m, 4) of (u, v, t, local)
    log_errors : (m,)
    rungs : (m,) ints. Points of one rung share their rows.
    deviations : (m,). Standard deviations of `log_errors` from those of other models on the same
        rows: `PAIRED_DEVIATION` times the sampling errors.

    Attributes
    ----------
    drift : float. Octaves of gamma per doubling of the rows, the most likely of `DRIFTS`.
    """

    def __init__(
        self, points: np.ndarray, log_errors: np.ndarray, rungs: np.ndarray, deviations: np.ndarray
    ) -> None:
        self._points, self._prior = points, float(log_errors.max())
        spread = float(np.std(log_errors))
        self._deviation = max(constants.SHAPE_DEVIATIONS * spread, constants.MIN_DEVIATION)
        noise = np.diag(deviations**2 + constants.NOISE_DEVIATION**2)
        noise += constants.NOISE_DEVIATION**2 * (rungs[:, None] == rungs)
        residual = log_errors - self._prior
        best = -np.inf
        for drift in constants.DRIFTS:
            factor = scipy.linalg.cholesky(
                self._covariance(points, points, drift) + noise, lower=True
            )
            whitened = scipy.linalg.solve_triangular(factor, residual, lower=True)
            likelihood = matmul(-0.5 * whitened, whitened) - np.log(factor.diagonal()).sum()
            if likelihood > best:
                best, self.drift, self._factor = likelihood, drift, factor
                self._weights = scipy.linalg.solve_triangular(factor.T, whitened)

    def _covariance(self, P: np.ndarray, Q: np.ndarray, drift: float) -> np.ndarray:
        du, dv = np.subtract.outer(P[:, 0], Q[:, 0]), np.subtract.outer(P[:, 1], Q[:, 1])
        moved = du - drift * np.subtract.outer(P[:, 2], Q[:, 2])
        t_products, local = np.outer(P[:, 2], Q[:, 2]), np.outer(P[:, 3], Q[:, 3])
        shape, without_drift = _matern(moved, dv), _matern(du, dv)
        slopes = constants.CHANGE_DEVIATION**2 * (t_products + local) * without_drift
        offsets = constants.OFFSET_DEVIATION**2 * (1.0 + t_products + local)
        return self._deviation**2 * (shape + slopes) + offsets

    def mean(self, Q: np.ndarray) -> np.ndarray:
        """Expected log errors at points Q : (q, 4); (q,)."""
        return self._prior + matmul(self._covariance(Q, self._points, self.drift), self._weights)

    def _moments(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (q,) and covariance (q, q) of the log errors at points Q : (q, 4)."""
        cross = self._covariance(self._points, Q, self.drift)
        whitened = scipy.linalg.solve_triangular(self._factor, cross, lower=True)
        return self.mean(Q), self._covariance(Q, Q, self.drift) - matmul(whitened.T, whitened)

    def propose(
        self,
        candidates: np.ndarray,
        t_and_local: tuple[float, float],
        goal: tuple[float, float],
        count: int,
        is_known: np.ndarray,
    ) -> np.ndarray:
        """Parameters to try on the next rung.

        Parameters
        ----------
        candidates : (q, 2) of (u, v)
        t_and_local : (t, local) of the models of the next rung
        goal : (t, local) of the models for which the parameters are to be best
        is_known : (q,) bool. Candidates that have been tried on the rows of the rung already.

        Returns
        -------
        (at most count, 2)
            In the order of `candidates`: the best candidate at the goal and the best candidate of
            the rung, unless they are known (the two show the drift), then candidates of the largest
            expected improvement at the goal, each computed as if the candidates chosen before were
            known. No rows if no candidate is expected to improve the error.
        """
        q = len(candidates)
        at_goal = np.column_stack([candidates, np.tile(goal, (q, 1))])
        of_rung = np.column_stack([candidates, np.tile(t_and_local, (q, 1))])
        mean, covariance = self._moments(np.vstack([at_goal, of_rung]))
        best_on_rung, mean = int(mean[q:].argmin()), mean[:q]
        best = int(mean.argmin())
        chosen = [i for i in dict.fromkeys((best, best_on_rung)) if not is_known[i]][:count]
        is_excluded = is_known | (mean > mean[best] + constants.MAX_EXPECTED_EXCESS)
        for i in chosen:
            covariance = _conditioned(covariance, q + i)
        while len(chosen) < count:
            variance = covariance.diagonal()[:q] + covariance[best, best] - 2 * covariance[best, :q]
            deviation = np.sqrt(np.maximum(variance, 1e-12))  # guard: 0 at `best`
            gain = (mean[best] - mean) / deviation
            density = np.exp(-(gain**2) / 2.0) / np.sqrt(2.0 * np.pi)
            improvement = deviation * (gain * ndtr(gain) + density)
            improvement[is_excluded] = improvement[chosen] = 0.0
            if improvement.max() < constants.MIN_IMPROVEMENT:
                break
            chosen.append(int(improvement.argmax()))
            covariance = _conditioned(covariance, q + chosen[-1])
        return candidates[sorted(chosen)]


def _matern(du: np.ndarray, dv: np.ndarray) -> np.ndarray:
    """Correlation of smoothness 3/2 at distances du and dv."""
    of_width, of_c = constants.CORRELATION_LENGTHS
    r = np.sqrt(3.0 * ((du / of_width) ** 2 + (dv / of_c) ** 2))
    return (1.0 + r) * np.exp(-r)


def _conditioned(covariance: np.ndarray, i: int) -> np.ndarray:
    """Covariance given an observation of point i."""
    column = covariance[:, i]
    return covariance - np.outer(column, column) / (column[i] + constants.NOISE_DEVIATION**2)
