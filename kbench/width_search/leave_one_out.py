"""Kernel width and ridge by leave-one-out errors in closed form.

With K = Q diag(l) Q' and G = K + alpha I, the error of the model without row i at row i is

    (G^-1 y)_i / (G^-1)_ii,
    G^-1 y = Q (Q'y / (l + alpha)),    (G^-1)_ii = sum_j Q_ij^2 / (l_j + alpha)

(G. Wahba, "Spline Models for Observational Data", SIAM 1990, equation 4.2.9), so that one
eigendecomposition of m rows, O(m^3), gives the errors of all alpha, O(m^2) each. The surface of
`kbench.width_search.surface`, with v = log2 alpha, extrapolates from few rows to more. Small
samples mislead if few rows have large errors, or if more rows make models much more local. So
models of 3,000 rows come last, each by one inverse factor of G, a few octaves of gamma apart.
"""

import numpy as np
import scipy.linalg

from kbench.intrinsics.products import matmul
from kbench.trace import Deadline, Trace
from kbench.width_search import constants
from kbench.width_search.gram import PreparedRows
from kbench.width_search.surface import Surface

# Multiplications of an eigendecomposition of m rows, as a multiple of m^3 (G. Golub and C. Van
# Loan, "Matrix Computations", 4th edition, 2013, section 8.3: 9 m^3 operations).
_EIGEN_PRODUCTS = 9.0
# Octaves beyond the widths of a rung up to which the surface may place the best width: farther
# away the surface only extrapolates. Set by hand.
_MAX_OCTAVES_BEYOND = 0.5


def errors_by_ridge(K: np.ndarray, y: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Leave-one-out errors for every ridge.

    K : (m, m) kernel matrix
    y : (m,) or (m, t)
    alphas : (a,), positive

    Returns (m, a) or (m, t, a).
    """
    # Divide and conquer: LAPACK's default takes 3.0 s instead of 0.6 for 1,600 rows where many
    # eigenvalues nearly agree (protein_regression, kernel values near zero).
    # LAPACK overwrites column-major arrays, so the transpose saves a copy.
    eigenvalues, Q = scipy.linalg.eigh(
        K.astype(np.float64).T, lower=False, overwrite_a=True, check_finite=False, driver="evd"
    )
    # Rounding makes eigenvalues slightly negative.
    inverse = 1.0 / (np.maximum(eigenvalues, 0.0)[:, None] + alphas)
    Y = y.reshape(len(y), -1)
    weighted = matmul(Q.T, Y)[:, :, None] * inverse[:, None]
    residuals = matmul(Q, weighted.reshape(len(Q), -1)).reshape(weighted.shape)
    errors = residuals / matmul(Q**2, inverse)[:, None]
    return errors.reshape(*y.shape, len(alphas))


def errors_of_one_ridge(K: np.ndarray, y: np.ndarray, alpha: float) -> tuple[np.ndarray, float]:
    """Leave-one-out errors (m,) for one ridge > 0, from K : (m, m) and y : (m,), and the effective
    dimension tr K (K + alpha I)^-1 of the model as a fraction of m.

    (G^-1)_ii is the squared length of a column of the inverse factor, which takes half the time of
    the inverse. If rounding of K exceeds the ridge, so that K + alpha I is not positive definite,
    the errors are y, as of the model 0.
    """
    m = len(K)
    # A ridge below the rounding of float32 is lost in a factor of float32.
    dtype = np.dtype(np.float64 if alpha < m * np.finfo(np.float32).eps else np.float32)
    # The lower triangle, as in `errors_by_ridge`: a float32 K is not symmetric to the last bit, and
    # with a small ridge the errors of the two triangles differ.
    G: np.ndarray = np.array(K, dtype, order="F")
    G[np.diag_indices_from(G)] += alpha
    try:
        factor, _ = scipy.linalg.cho_factor(G, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return y, 1.0
    coef = scipy.linalg.cho_solve((factor, True), y.astype(dtype), check_finite=False)
    (trtri,) = scipy.linalg.get_lapack_funcs(("trtri",), (factor,))
    inverse, _ = trtri(factor, lower=True, overwrite_c=True)
    diagonal = np.array([(inverse[i:, i] ** 2).sum() for i in range(m)], np.float64)
    return coef / diagonal, float(np.clip(1.0 - alpha * diagonal.mean(), 0.0, 1.0))


class RidgeSearch:
    """Searches width and ridge when it is made; the attributes hold the choice.

    Attributes
    ----------
    gamma, alpha : float
    error : float
        Leave-one-out mean squared error on the rows of the last rung, at the point nearest to the
        choice; `relative_deviation` is the sampling error of `error` as a fraction of `error`.
    columns : dict of str to lists
        n_rows, gamma, alpha and error of every model.
    effective_fraction, mean_value : float
        Effective dimension of the best model of the last rung as a fraction of its rows, and the
        mean kernel value between these rows; 1 if that rung was not measured.
    seconds_per_product : float
        Measured wall seconds of a multiplication in the factorisations of the search, from which
        the cost of later factorisations is estimated.

    A width is not begun if the seconds of the last width make it likely to end after the deadline;
    the first width is always measured, on 600 rows at most.
    """

    def __init__(
        self,
        rows: PreparedRows,
        y: np.ndarray,
        rng: np.random.Generator,
        deadline: Deadline,
        trace: Trace,
    ) -> None:
        n = len(rows)
        self._rows, self._trace, self._deadline = rows, trace, deadline
        self.seconds_per_product, self.effective_fraction, self.mean_value = 0.0, 1.0, 1.0
        self._order = rng.permutation(n)
        deviation = float(y.std())
        self._scale = deviation if deviation > 0.0 else 1.0
        self._z = (y - y.mean()) / self._scale
        self.columns: dict[str, list] = {name: [] for name in ("n_rows", "gamma", "alpha", "error")}
        self._points = np.empty((0, 4))
        self._log_errors = self._deviations = np.empty(0)
        self._rungs = np.empty(0, int)
        surface = self._rung(0, self._first_rows(), constants.WIDTHS)
        if n > constants.RIDGE_ROWS[0] and not deadline.passed:
            m = min(n, constants.RIDGE_ROWS[1])
            surface = self._rung(1, m, self._promising_widths(surface, m))
            if n > constants.RIDGE_ROWS[1]:
                surface = self._last_rung(surface)
        self._choose(surface)

    def _first_rows(self) -> int:
        """Rows of the first rung: as many as the deadline is expected to leave time for."""
        max_rows = min(len(self._rows), constants.RIDGE_ROWS[0])
        seconds_left = self._deadline.seconds_left()
        pilot_rows = constants.PILOT_ROWS
        if seconds_left is None or max_rows <= pilot_rows:
            return max_rows
        start, sample = self._trace.running_s(), self._order[:pilot_rows]
        K = self._rows.gram(sample, sample[:0]).matrix(self._rows.unit)
        errors_by_ridge(K, self._z[sample], 2.0**constants.RIDGES)
        rate = (self._trace.running_s() - start) / pilot_rows**3
        affordable = np.cbrt(seconds_left / max(len(constants.WIDTHS) * rate, 1e-300))  # guard
        return int(np.clip(affordable, pilot_rows, max_rows))

    def _rung(self, rung_number: int, m: int, widths: np.ndarray) -> Surface:
        """Measure all ridges of some widths on samples of m rows."""
        n_samples = min(constants.RIDGE_SAMPLES[rung_number], len(self._order) // m)
        samples = [self._order[k * m : (k + 1) * m] for k in range(n_samples)]
        # Widths in the middle first: the deadline may leave no time for the others.
        for u in sorted(widths, key=lambda u: (abs(u), u)):
            products = _EIGEN_PRODUCTS * n_samples * float(m) ** 3
            if not self._has_time(products):
                break
            start = self._trace.running_s()
            gamma = self._rows.unit * 2.0**u
            squares = []
            for sample in samples:
                # One at a time: kernel matrices of the same rows share memory.
                K = self._rows.gram(sample, sample[:0]).matrix(gamma)
                squares.append(errors_by_ridge(K, self._z[sample], 2.0**constants.RIDGES) ** 2)
            self.seconds_per_product = (self._trace.running_s() - start) / products
            self._record(rung_number, m, u, constants.RIDGES, np.vstack(squares))
        return self._surface()

    def _has_time(self, products: float) -> bool:
        """Whether `products` multiplications should end in time, or nothing was measured."""
        seconds_left = self._deadline.seconds_left()
        is_first = not self.columns["error"]
        return (
            seconds_left is None or is_first or self.seconds_per_product * products < seconds_left
        )

    def _last_rung(self, surface: Surface) -> Surface:
        """Measure the best point with more rows, then smaller and larger widths while errors fall.

        Each width has the ridge that the surface expects to be its best one.
        """
        sample = self._order[: constants.RIDGE_ROWS[2]]
        candidates = self._candidates(_MAX_OCTAVES_BEYOND)
        next_u = candidates[surface.mean(_at_goal(candidates)).argmin(), 0]
        measured: dict[float, float] = {}
        products = float(len(sample)) ** 3
        while next_u is not None and len(measured) < constants.POINTS_PER_RUNG:
            if not self._has_time(products):
                break
            u, start = float(next_u), self._trace.running_s()
            ridges = _all_ridges(np.array([u]))
            v = ridges[surface.mean(_at_goal(ridges)).argmin(), 1]
            K = self._rows.gram(sample, sample[:0]).matrix(self._rows.unit * 2.0**u)
            errors, fraction = errors_of_one_ridge(K, self._z[sample], float(2.0**v))
            squares = errors**2
            self.seconds_per_product = (self._trace.running_s() - start) / products
            self._record(2, len(sample), u, np.array([v]), squares[:, None])
            measured[u] = float(squares.mean())
            best = min(measured, key=lambda width: measured[width])
            if best == u:
                self.effective_fraction, self.mean_value = fraction, float(K.mean())
            widths = (best + step for step in constants.RIDGE_STEPS)
            next_u = next((width for width in widths if width not in measured), None)
        return self._surface()

    def _candidates(self, beyond: float) -> np.ndarray:
        """All ridges for widths up to `beyond` octaves from the last rung's; (q, 2)."""
        widths = self._points[self._rungs == self._rungs[-1], 0]
        return _all_ridges(
            np.arange(widths.min() - beyond, widths.max() + beyond + 0.01, constants.SPACING)
        )

    def _record(
        self, rung_number: int, m: int, u: float, vs: np.ndarray, squares: np.ndarray
    ) -> None:
        """Keep the squared errors (rows, len(vs)) of models of m rows."""
        gamma, t = self._rows.unit * 2.0**u, np.log2(m / len(self._rows))
        errors = squares.mean(axis=0)
        # Guard: all errors may be 0.
        deviations = np.sqrt((squares**2).sum(axis=0)) / np.maximum(squares.sum(axis=0), 1e-300)
        for alpha, error in zip(2.0**vs, errors * self._scale**2, strict=True):
            self._trace(validation_error=error, gamma=gamma, alpha=alpha, n_rows=m)
        self.columns["n_rows"] += [m] * len(vs)
        self.columns["gamma"] += [gamma] * len(vs)
        self.columns["alpha"] += list(2.0**vs)
        self.columns["error"] += list(errors * self._scale**2)
        self._points = np.vstack([self._points, [(u, v, t, 0.0) for v in vs]])
        # Guard: an error of 0 has no logarithm. No error counts as worse than 1, that of the mean.
        self._log_errors = np.append(self._log_errors, np.log(np.clip(errors, 1e-12, 1.0)))
        self._deviations = np.append(
            self._deviations, constants.PAIRED_DEVIATION * np.minimum(deviations, 1.0)
        )
        self._rungs = np.append(self._rungs, np.full(len(vs), rung_number))

    def _surface(self) -> Surface:
        return Surface(self._points, self._log_errors, self._rungs, self._deviations)

    def _promising_widths(self, surface: Surface, m: int) -> np.ndarray:
        """Widths around the best one for m rows and the best one for all rows."""
        u, v = (axis.ravel() for axis in np.meshgrid(constants.WIDTHS, constants.RIDGES))
        best = []
        for t in (np.log2(m / len(self._rows)), 0.0):
            mean = surface.mean(np.column_stack([u, v, np.full(len(u), t), np.zeros(len(u))]))
            best.append(float(u[mean.argmin()]))
        distance = np.minimum(
            np.abs(constants.WIDTHS - best[0]), np.abs(constants.WIDTHS - best[1])
        )
        return np.sort(
            constants.WIDTHS[np.argsort(distance, kind="stable")[: constants.POINTS_PER_RUNG]]
        )

    def _choose(self, surface: Surface) -> None:
        last = self._rungs == self._rungs[-1]
        last_points = self._points[last, :2]
        if self._rungs[-1] < 2:
            candidates = self._candidates(_MAX_OCTAVES_BEYOND)
        else:
            candidates = self._candidates(constants.TRUST_RADIUS)
            best = last_points[self._log_errors[last].argmin()]
            candidates = candidates[np.abs(candidates - best).max(axis=1) <= constants.TRUST_RADIUS]
        mean = surface.mean(_at_goal(candidates))
        octave_cost = (
            constants.OCTAVE_COST * np.median(self._deviations[last]) / constants.PAIRED_DEVIATION
        )
        u, v = candidates[(mean + octave_cost * (candidates[:, 0] - candidates[:, 1])).argmin()]
        self.gamma, self.alpha = float(self._rows.unit * 2.0**u), float(2.0**v)
        nearest = int(np.flatnonzero(last)[np.abs(last_points - (u, v)).sum(axis=1).argmin()])
        self.error = float(self.columns["error"][nearest])
        self.relative_deviation = float(self._deviations[nearest] / constants.PAIRED_DEVIATION)


def _all_ridges(widths: np.ndarray) -> np.ndarray:
    """Points (q, 2) of each width with ridges of a fine grid."""
    # The end is in the range although sums of the spacing round.
    ridges = np.arange(constants.RIDGES[0], constants.RIDGES[-1] + 0.01, constants.SPACING)
    return np.column_stack([axis.ravel() for axis in np.meshgrid(widths, ridges)])


def _at_goal(points: np.ndarray) -> np.ndarray:
    """Points (q, 2) of width and ridge for models of all rows; (q, 4)."""
    return np.column_stack([points, np.zeros((len(points), 2))])
