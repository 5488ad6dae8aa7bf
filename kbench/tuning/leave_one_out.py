"""Kernel width and ridge by leave-one-out errors in closed form.

With K = Q diag(l) Q' and G = K + alpha I, the error of the machine without row i at row i is

    (G^-1 y)_i / (G^-1)_ii,
    G^-1 y = Q (Q'y / (l + alpha)),    (G^-1)_ii = sum_j Q_ij^2 / (l_j + alpha)

(G. Wahba, "Spline Models for Observational Data", SIAM 1990, equation 4.2.9), so that one
eigendecomposition of m rows, O(m^3), gives the errors of all alpha, O(m^2) each. The surface of
`kbench.tuning.surface`, with v = log2 alpha, extrapolates from few rows to all.
"""

import numpy as np
import scipy.linalg

from kbench.trace import Deadline, Trace
from kbench.tuning.gram import Rows
from kbench.tuning.surface import Surface

# Rows of the first and the second eigendecompositions: 0.1 s and 1 s each, one thread.
_FIRST, _SECOND = 600, 1600
# Disjoint samples of the first and the second rung, where there are rows for them.
_SAMPLES = (1, 2)
# Widths of the first rung, and how many the second one has.
_WIDTHS, _SECOND_WIDTHS = np.arange(-7.0, 7.0), 5
# Ridges, as logarithms to base 2.
_RIDGES = np.arange(-20.0, 5.0, 2.0)
# Spacing of the points among which the answer is chosen.
_SPACING = 0.25
# Fraction of the sampling error of a log error that is not common to machines of the same rows.
_COMMON = 0.35


def errors_by_ridge(K: np.ndarray, y: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Leave-one-out errors for every ridge.

    Parameters
    ----------
    K : (m, m) kernel matrix
    y : (m,) or (m, t)
    alphas : (a,), positive

    Returns
    -------
    (m, a) or (m, t, a)
    """
    # Divide and conquer: LAPACK's default takes 3.0 s instead of 0.6 for 1,600 rows where many
    # eigenvalues nearly agree (protein_regression, kernel values near zero).
    values, Q = scipy.linalg.eigh(np.asarray(K, np.float64), check_finite=False, driver="evd")
    # Rounding makes eigenvalues slightly negative.
    inverse = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    Y = y.reshape(len(y), -1)
    weighted = (Q.T @ Y)[:, :, None] * inverse[:, None]
    residuals = (Q @ weighted.reshape(len(Q), -1)).reshape(weighted.shape)
    errors = residuals / (Q**2 @ inverse)[:, None]
    return errors.reshape(*y.shape, len(alphas))


class RidgeSearch:
    """The chosen width and ridge.

    Attributes
    ----------
    gamma, alpha : float
    error : float
        Leave-one-out mean squared error on the rows of the last rung, at the point nearest to the
        choice; `relative_deviation` is its sampling error as a fraction of it.
    columns : dict of str to lists
        n_rows, gamma, alpha and error of every machine.
    """

    def __init__(
        self, rows: Rows, y: np.ndarray, rng: np.random.Generator, deadline: Deadline, trace: Trace
    ) -> None:
        n = len(rows)
        self._rows, self._trace = rows, trace
        self._order = rng.permutation(n)
        deviation = float(y.std())
        self._scale = deviation if deviation > 0.0 else 1.0
        self._z = (y - y.mean()) / self._scale
        self.columns: dict[str, list] = {name: [] for name in ("n_rows", "gamma", "alpha", "error")}
        self._points = np.empty((0, 4))
        self._log_errors = self._deviations = np.empty(0)
        self._rungs = np.empty(0, int)
        surface = self._rung(0, min(n, _FIRST), _WIDTHS)
        if n > _FIRST and not deadline.passed:
            m = min(n, _SECOND)
            widths = self._promising(surface, m)
            while len(widths):
                surface = self._rung(1, m, widths)
                widths = self._beyond(surface, deadline)
        self._choose(surface)

    def _rung(self, number: int, m: int, widths: np.ndarray) -> Surface:
        """Measure all ridges of some widths on samples of m rows."""
        n_samples = min(_SAMPLES[number], len(self._order) // m)
        samples = [self._order[k * m : (k + 1) * m] for k in range(n_samples)]
        t = np.log2(m / len(self._rows))
        for u in widths:
            gamma = self._rows.unit * 2.0**u
            parts = []
            for sample in samples:
                # One at a time: kernel matrices of the same rows share memory.
                K = self._rows.gram(sample, sample[:0]).matrix(gamma)
                parts.append(errors_by_ridge(K, self._z[sample], 2.0**_RIDGES) ** 2)
            squares = np.vstack(parts)
            errors = squares.mean(axis=0)
            deviations = np.sqrt((squares**2).sum(axis=0)) / np.maximum(squares.sum(axis=0), 1e-300)
            for alpha, error in zip(2.0**_RIDGES, errors * self._scale**2, strict=True):
                self._trace(validation_error=error, gamma=gamma, alpha=alpha, n_rows=m)
            self.columns["n_rows"] += [m] * len(_RIDGES)
            self.columns["gamma"] += [gamma] * len(_RIDGES)
            self.columns["alpha"] += list(2.0**_RIDGES)
            self.columns["error"] += list(errors * self._scale**2)
            new = [(u, v, t, 0.0) for v in _RIDGES]
            self._points = np.vstack([self._points, new])
            self._log_errors = np.append(self._log_errors, np.log(np.clip(errors, 1e-12, 1.0)))
            self._deviations = np.append(self._deviations, _COMMON * np.minimum(deviations, 1.0))
            self._rungs = np.append(self._rungs, np.full(len(_RIDGES), number))
        return Surface(self._points, self._log_errors, self._rungs, self._deviations)

    def _promising(self, surface: Surface, m: int) -> np.ndarray:
        """Widths around the best one for m rows and the best one for all rows."""
        u, v = (axis.ravel() for axis in np.meshgrid(_WIDTHS, _RIDGES))
        best = []
        for t in (np.log2(m / len(self._rows)), 0.0):
            mean = surface.mean(np.column_stack([u, v, np.full(len(u), t), np.zeros(len(u))]))
            best.append(float(u[mean.argmin()]))
        distance = np.minimum(np.abs(_WIDTHS - best[0]), np.abs(_WIDTHS - best[1]))
        return np.sort(_WIDTHS[np.argsort(distance, kind="stable")[:_SECOND_WIDTHS]])

    def _beyond(self, surface: Surface, deadline: Deadline) -> np.ndarray:
        """The next width if the best one for all rows is the largest or smallest of the rung.

        The first rung may be wrong by several octaves: with 600 rows of protein_regression the best
        width is 2^4 times too wide.
        """
        tried = self._points[self._rungs == 1, 0]
        u, v = (axis.ravel() for axis in np.meshgrid(np.unique(tried), _RIDGES))
        mean = surface.mean(np.column_stack([u, v, np.zeros(len(u)), np.zeros(len(u))]))
        best = u[mean.argmin()]
        following = []
        if best == tried.min():
            following.append(best - 1.0)
        if best == tried.max():
            following.append(best + 1.0)
        inside = [u for u in following if _WIDTHS[0] <= u <= _WIDTHS[-1]]
        return np.array([] if deadline.passed else inside)

    def _choose(self, surface: Surface) -> None:
        last = self._rungs == self._rungs[-1]
        tried = self._points[last]
        # Half an octave beyond the widths tried, and all ridges.
        us = np.arange(tried[:, 0].min() - 0.5, tried[:, 0].max() + 0.51, _SPACING)
        vs = np.arange(_RIDGES[0], _RIDGES[-1] + 0.01, _SPACING)
        u, v = (axis.ravel() for axis in np.meshgrid(us, vs))
        mean = surface.mean(np.column_stack([u, v, np.zeros(len(u)), np.zeros(len(u))]))
        best = int(mean.argmin())
        self.gamma, self.alpha = float(self._rows.unit * 2.0 ** u[best]), float(2.0 ** v[best])
        distance = np.abs(tried[:, :2] - (u[best], v[best])).sum(axis=1)
        nearest = int(np.flatnonzero(last)[distance.argmin()])
        self.error = float(self.columns["error"][nearest])
        self.relative_deviation = float(self._deviations[nearest] / _COMMON)
