"""Kernel width and ridge by leave-one-out errors in closed form.

With K = Q diag(l) Q' and G = K + alpha I, the error of the machine without row i at row i is

    (G^-1 y)_i / (G^-1)_ii,
    G^-1 y = Q (Q'y / (l + alpha)),    (G^-1)_ii = sum_j Q_ij^2 / (l_j + alpha)

(G. Wahba, "Spline Models for Observational Data", SIAM 1990, equation 4.2.9), so that one
eigendecomposition of m rows, O(m^3), gives the errors of all alpha, O(m^2) each. The surface of
`kbench.width_search.surface`, with v = log2 alpha, extrapolates from few rows to more. Small
samples mislead where few rows have large errors, or where more rows make machines much more local,
so that machines of 3,000 rows come last, each by one inverse of G, a few octaves of width apart.
"""

import numpy as np
import scipy.linalg

from kbench.trace import Deadline, Trace
from kbench.width_search.gram import Rows
from kbench.width_search.surface import Surface

# Rows of the first and the second eigendecompositions, 0.05 s and 0.2 s each, and of the inverses
# of the last rung, 0.6 s each, one thread. With a last rung, held-out RMSE on the first 4,000 rows
# of protein_regression is 0.686 +- .001 instead of 0.703 +- .024, on cpusmall 3.06 +- .07 instead
# of 3.23 +- .35 (three to five seeds), as with 4,000 rows in it, which takes twice the time.
_FIRST, _SECOND, _LAST = 600, 1000, 3000
# Disjoint samples of the first and the second rung, where there are rows for them.
_SAMPLES = (1, 2)
# Octaves of width from the best machine of the last rung to the next one, the first step that leads
# to a new width. More local machines come first, because the best ones are more local with more
# rows: with 1,000 rows of protein_regression the best gamma is up to 2^4 times too small. The
# second value is the number of machines, at most.
_STEPS, _MOST_LAST = (2.0, -2.0, 1.0, -1.0), 5
# Widths of the first rung, and how many the second one has.
_WIDTHS, _SECOND_WIDTHS = np.arange(-7.0, 7.0), 5
# Ridges, as logarithms to base 2.
_RIDGES = np.arange(-20.0, 5.0, 2.0)
# Spacing of the points among which the answer is chosen, and their largest distance from a point of
# the last rung.
_SPACING, _TRUST = 0.25, 0.75
# Fraction of the sampling error of the log error that an octave of the width or of 1 / alpha may
# cost: of machines whose errors do not differ significantly, the smoother one is chosen.
_SMOOTHER = 0.05
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


def errors_of_one_ridge(K: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """Leave-one-out errors for one ridge > 0; (m,), from K : (m, m) and y : (m,).

    Where rounding of K exceeds the ridge, so that K + alpha I is not positive definite, they are
    those of the machine that is zero.
    """
    G = np.array(K, np.float64, order="F")
    G[np.diag_indices_from(G)] += alpha
    try:
        factor, _ = scipy.linalg.cho_factor(G, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return y
    coef = scipy.linalg.cho_solve((factor, True), y, check_finite=False)
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=True, overwrite_c=True)
    return coef / inverse.diagonal()


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
            surface = self._rung(1, m, self._promising(surface, m))
            if n > _SECOND:
                surface = self._last_rung(surface, deadline)
        self._choose(surface)

    def _rung(self, number: int, m: int, widths: np.ndarray) -> Surface:
        """Measure all ridges of some widths on samples of m rows."""
        n_samples = min(_SAMPLES[number], len(self._order) // m)
        samples = [self._order[k * m : (k + 1) * m] for k in range(n_samples)]
        for u in widths:
            gamma = self._rows.unit * 2.0**u
            parts = []
            for sample in samples:
                # One at a time: kernel matrices of the same rows share memory.
                K = self._rows.gram(sample, sample[:0]).matrix(gamma)
                parts.append(errors_by_ridge(K, self._z[sample], 2.0**_RIDGES) ** 2)
            self._record(number, m, u, _RIDGES, np.vstack(parts))
        return self._surface()

    def _last_rung(self, surface: Surface, deadline: Deadline) -> Surface:
        """Measure the best point with more rows, then smaller and larger widths while errors fall.

        Each width has the ridge that the surface expects to be its best one.
        """
        sample = self._order[:_LAST]
        candidates = self._candidates(0.5)
        following = candidates[surface.mean(_at_goal(candidates)).argmin(), 0]
        measured: dict[float, float] = {}
        while following is not None and len(measured) < _MOST_LAST and not deadline.passed:
            u = float(following)
            ridges = _all_ridges(np.array([u]))
            v = ridges[surface.mean(_at_goal(ridges)).argmin(), 1]
            K = self._rows.gram(sample, sample[:0]).matrix(self._rows.unit * 2.0**u)
            squares = errors_of_one_ridge(K, self._z[sample], float(2.0**v)) ** 2
            self._record(2, len(sample), u, np.array([v]), squares[:, None])
            measured[u] = float(squares.mean())
            best = min(measured, key=lambda width: measured[width])
            widths = (best + step for step in _STEPS)
            following = next((width for width in widths if width not in measured), None)
        return self._surface()

    def _candidates(self, beyond: float) -> np.ndarray:
        """All ridges of the widths of the rung before and `beyond` octaves from them; (q, 2)."""
        tried = self._points[self._rungs == self._rungs[-1], 0]
        return _all_ridges(np.arange(tried.min() - beyond, tried.max() + beyond + 0.01, _SPACING))

    def _record(self, number: int, m: int, u: float, vs: np.ndarray, squares: np.ndarray) -> None:
        """Keep the squared errors (rows, len(vs)) of machines of m rows."""
        gamma, t = self._rows.unit * 2.0**u, np.log2(m / len(self._rows))
        errors = squares.mean(axis=0)
        deviations = np.sqrt((squares**2).sum(axis=0)) / np.maximum(squares.sum(axis=0), 1e-300)
        for alpha, error in zip(2.0**vs, errors * self._scale**2, strict=True):
            self._trace(validation_error=error, gamma=gamma, alpha=alpha, n_rows=m)
        self.columns["n_rows"] += [m] * len(vs)
        self.columns["gamma"] += [gamma] * len(vs)
        self.columns["alpha"] += list(2.0**vs)
        self.columns["error"] += list(errors * self._scale**2)
        self._points = np.vstack([self._points, [(u, v, t, 0.0) for v in vs]])
        self._log_errors = np.append(self._log_errors, np.log(np.clip(errors, 1e-12, 1.0)))
        self._deviations = np.append(self._deviations, _COMMON * np.minimum(deviations, 1.0))
        self._rungs = np.append(self._rungs, np.full(len(vs), number))

    def _surface(self) -> Surface:
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

    def _choose(self, surface: Surface) -> None:
        last = self._rungs == self._rungs[-1]
        tried = self._points[last, :2]
        if self._rungs[-1] < 2:
            near = self._candidates(0.5)
        else:
            near = self._candidates(_TRUST)
            best = tried[self._log_errors[last].argmin()]
            near = near[np.abs(near - best).max(axis=1) <= _TRUST]
        mean = surface.mean(_at_goal(near))
        octave = _SMOOTHER * np.median(self._deviations[last]) / _COMMON
        u, v = near[(mean + octave * (near[:, 0] - near[:, 1])).argmin()]
        self.gamma, self.alpha = float(self._rows.unit * 2.0**u), float(2.0**v)
        nearest = int(np.flatnonzero(last)[np.abs(tried - (u, v)).sum(axis=1).argmin()])
        self.error = float(self.columns["error"][nearest])
        self.relative_deviation = float(self._deviations[nearest] / _COMMON)


def _all_ridges(widths: np.ndarray) -> np.ndarray:
    """Points (q, 2) of each width with ridges of a fine grid."""
    ridges = np.arange(_RIDGES[0], _RIDGES[-1] + 0.01, _SPACING)
    return np.column_stack([axis.ravel() for axis in np.meshgrid(widths, ridges)])


def _at_goal(points: np.ndarray) -> np.ndarray:
    """Points (q, 2) of width and ridge for machines of all rows; (q, 4)."""
    return np.column_stack([points, np.zeros((len(points), 2))])
