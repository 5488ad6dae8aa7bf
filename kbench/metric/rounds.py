"""The rounds of a recursive feature machine on given rows: metrics and their held-out errors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.metric.gradients import gradient_outer_product, squared_gradients
from kbench.metric.ridge_problem import LARGER_RIDGES, RidgeProblem, Root, exceeds, is_weighed
from kbench.metric.warp import warp_of_gradients

# Factor by which a width is changed while that lowers the held-out error, and the largest number of
# changes in one direction. A smaller factor is finer, and each change costs a kernel matrix and a
# factorisation per ridge. Set by hand.
_WIDTH_STEP, _MAX_WIDTH_STEPS = 2.0, 3
# Fraction by which another width must lower the error: in two of five seeds, 1,500 rows of kin40k
# preferred a wider kernel by 3 %, whose error with all rows was .066 instead of .042
# (`scripts/bench_metric.py sets`).
WIDTH_GAIN = 0.05
# Rounds end when the held-out error is at least this multiple of the lowest one. In the search,
# whose rounds are cheap, errors may rise by 5 %, as a later round may still be better; at full size
# a round that gains less than 1 % is not worth its seconds. Set by hand.
_MAX_RISE, MAX_RISE_AT_FULL_SIZE = 1.05, 0.99
# After the second round, a structure is given up if its lowest error exceeds this multiple of the
# lowest error of all structures: 2,000 rows do not rank errors that are closer. Set by hand.
_GIVE_UP_RATIO = 1.05
# Maximum number of features that the Laplacian kernel weighs, those with the largest gradients of a
# Matern ridge regression: its distances are not matrix products, and take about 10 times as long
# for a feature (`scripts/bench_metric.py`).
MAX_LAPLACIAN_FEATURES = 128


@dataclass(frozen=True)
class MetricCandidate:
    """One metric that was tried, with its error on the held-out rows."""

    error: float
    n_round: int
    kernel: str
    structure: str
    ridge: float
    gamma: float
    width: float  # multiple of `ridge_problem._WIDTHS` times the median distance
    # (d, r), M = root root' on standardised features; (d,) of a diagonal M; or a map of each column
    root: Root
    n_rows: int

    def held_out_predictions(self, data: RidgeProblem) -> np.ndarray:
        """Predictions of this metric's model at the held-out rows, from a new factorisation."""
        return data.held_out_predictions(self.root, self.kernel, self.gamma, self.ridge)


def preferred(ranked: Sequence[MetricCandidate], data: RidgeProblem) -> Sequence[MetricCandidate]:
    """The ranked candidates, without the warped ones if the best of all is warped and its squared
    error is not lower than that of the best other one by a standard error (the rule of L. Breiman
    et al., "Classification and Regression Trees", 1984).

    Squared errors serve for classes, too: they distinguish models of nearly equal error rates.
    """
    plain = [candidate for candidate in ranked if candidate.structure != "warped"]
    if not plain or plain[0] is ranked[0]:
        return ranked
    plain_errors, warped_errors = (
        ((candidate.held_out_predictions(data) - data.held_out_Y) ** 2).mean(axis=1)
        for candidate in (plain[0], ranked[0])
    )
    return ranked if exceeds(plain_errors, warped_errors, 1.0) else plain


@dataclass
class _ActiveStructure:
    """A structure whose rounds go on: its current metric and its lowest error so far."""

    structure: Any
    root: Root
    ridges: Sequence[float]
    lowest: float = np.inf
    goes_on: bool = True

    @property
    def name(self) -> str:
        return self.structure if isinstance(self.structure, str) else "blocks"


@dataclass(frozen=True)
class Rounds:
    """Learns metrics from the gradients of ridge regressions."""

    n_rounds: int
    gradient_rows: int  # number of rows at which gradients are taken
    rng: np.random.RandomState

    def steepest_features(self, data: RidgeProblem, ridges: Sequence[float]) -> np.ndarray:
        """The features along which a Matern ridge regression changes most; (min(d, 128),) ints."""
        d = data.X.shape[1]
        root = np.full(d, d**-0.5)
        Z, matrix, _ = data.matrix(root, "matern12", 1.0, self.rng)
        coef = data.solve(root, matrix, ridges)[2]
        gradient_rows = self.rng.permutation(len(Z))[: self.gradient_rows]
        squares = gradient_outer_product(matrix, Z, coef, gradient_rows, diagonal=True)
        return np.argsort(-squares, kind="stable")[:MAX_LAPLACIAN_FEATURES]

    def metrics(
        self,
        data: RidgeProblem,
        kernel: str,
        structures: Sequence[Any],
        *,
        ridges: Sequence[float],
        width: float = 1.0,
        n_rounds: int | None = None,
        max_rise: float = _MAX_RISE,
        start: MetricCandidate | None = None,
    ) -> Iterator[MetricCandidate]:
        """The metrics of rounds 0, 1, ... of each structure, each with the best of the ridges.

        The rounds go on from `start`, a metric learned of fewer rows, or begin with the identity,
        whose model all structures share. After the second round, structures whose lowest error
        exceeds the lowest of all by the factor `_GIVE_UP_RATIO` are given up.

        Parameters
        ----------
        data : RidgeProblem
        kernel : str
        structures : sequence of "full", "diagonal", "warped" or (d,) ints
            Group labels of the features; M is zero between features of different groups.
        ridges : sequence of float
            `RidgeProblem.solve` adds `LARGER_RIDGES` if the largest is the best. With `start`, only
            its ridge and, with more rows than it had, the next smaller one are compared; later
            rounds try a still smaller one as long as the smaller of the two was the best.
        width : float
            Width of the kernel, as in `MetricCandidate`.
        n_rounds : int, optional
            Limit on the rounds, below the object's own.
        max_rise : float
            The multiple of the lowest error at which the rounds end.
        start : MetricCandidate, optional
        """
        n, d = data.X.shape
        n_rounds = self.n_rounds if n_rounds is None else min(n_rounds, self.n_rounds)
        root = np.full(d, d**-0.5) if start is None else start.root
        rounds_before = 0 if start is None else start.n_round
        if start is None and kernel == "laplacian" and data.laplacian_features is not None:
            root = np.zeros(d)
            root[data.laplacian_features] = len(data.laplacian_features) ** -0.5
        gradient_rows = self.rng.permutation(n)[: self.gradient_rows]
        all_ridges = (*ridges, *LARGER_RIDGES)

        def with_smaller(ridge: float) -> tuple[float, ...]:
            """The next smaller ridge and this one: with more rows the best ridge is smaller."""
            index = all_ridges.index(ridge)
            return all_ridges[max(index - 1, 0) : index + 1]

        first_ridges = ridges
        if start is not None:
            first_ridges = with_smaller(start.ridge) if n > start.n_rows else (start.ridge,)
        active = [_ActiveStructure(structure, root, first_ridges) for structure in structures]
        for n_round in range(n_rounds + 1):
            shared = None
            for current in active:
                if shared is None or n_round > 0:
                    Z, matrix, gamma = data.matrix(current.root, kernel, width, self.rng)
                    shared = data.solve(
                        current.root,
                        matrix,
                        current.ridges,
                        try_larger=start is None,
                        rows=gradient_rows,
                    )
                error, ridge, coef, values = shared
                number = rounds_before + n_round
                yield MetricCandidate(
                    error, number, kernel, current.name, ridge, gamma, width, current.root, n
                )
                current.goes_on = n_round < n_rounds and error < max_rise * current.lowest
                current.lowest = min(current.lowest, error)
                if not current.goes_on:
                    continue
                if start is not None:
                    current.ridges = with_smaller(ridge) if ridge < current.ridges[-1] else (ridge,)
                elif len(ridges) > 1:
                    # The best ridges of two successive rounds are seldom far from each other.
                    index = all_ridges.index(ridge)
                    current.ridges = all_ridges[max(index - 1, 0) : index + 2]
                new_root = self._next_root(current, data.X, matrix, Z, coef, gradient_rows, values)
                if new_root is None:
                    # A constant function has no gradients: there is nothing to learn.
                    current.goes_on = False
                else:
                    current.root = new_root
            lowest = min((structure.lowest for structure in active), default=np.inf)
            limit = np.inf if n_round == 0 else _GIVE_UP_RATIO * lowest
            active = [item for item in active if item.goes_on and item.lowest <= limit]

    @staticmethod
    def _next_root(
        current: "_ActiveStructure",
        X: np.ndarray,
        matrix: Any,
        Z: np.ndarray,
        coef: np.ndarray,
        rows: np.ndarray,
        values: np.ndarray | None,
    ) -> Root | None:
        """Root of the average gradient outer product, scaled to trace 1; None if that vanishes."""
        root, diagonal = current.root, current.name == "diagonal"
        if current.name == "warped":
            squares = np.zeros((len(rows), X.shape[1]))
            squares[:, is_weighed(root)] = squared_gradients(matrix, Z, coef, rows, values)
            return warp_of_gradients(X[rows], root, squares)
        assert isinstance(root, np.ndarray)
        G = gradient_outer_product(matrix, Z, coef, rows, values=values, diagonal=diagonal)
        # Gradients with respect to z = root' x become those with respect to x.
        if root.ndim == 1:
            used = root > 0.0
            metric = np.zeros(root.shape * G.ndim)
            scaled = root[used] * G * (root[used] if diagonal else root[used, None])
            metric[used if diagonal else np.ix_(used, used)] = scaled
        else:
            metric = matmul(matmul(root, G), root.T)
        if not diagonal:
            metric = _within_groups(metric, current.structure)
        total = float(metric.sum() if diagonal else np.trace(metric))
        if not np.isfinite(total) or total <= 0.0:
            return None
        return np.sqrt(metric / total) if diagonal else square_root(metric / total)

    def with_narrower_kernel(
        self, data: RidgeProblem, best: MetricCandidate, ridges: Sequence[float]
    ) -> MetricCandidate:
        """The metric `best` with a narrower kernel, and the same or the next larger ridge."""
        all_ridges = (*ridges, *LARGER_RIDGES)
        index, width = all_ridges.index(best.ridge), best.width / _WIDTH_STEP
        _, matrix, gamma = data.matrix(best.root, best.kernel, width, self.rng)
        next_ridges = all_ridges[index : index + 2]
        error, ridge, *_ = data.solve(best.root, matrix, next_ridges, try_larger=False)
        return replace(best, error=error, ridge=ridge, gamma=gamma, width=width)

    def other_widths(
        self, data: RidgeProblem, best: MetricCandidate, ridges: Sequence[float]
    ) -> Iterator[MetricCandidate]:
        """The best metric with narrower kernels, or else wider ones, while the error falls."""
        for step in (1.0 / _WIDTH_STEP, _WIDTH_STEP):
            lowest, width = best.error, best.width
            for _ in range(_MAX_WIDTH_STEPS):
                width *= step
                _, matrix, gamma = data.matrix(best.root, best.kernel, width, self.rng)
                error, ridge, *_ = data.solve(best.root, matrix, ridges)
                yield replace(best, error=error, ridge=ridge, gamma=gamma, width=width)
                if error >= lowest:
                    break
                lowest = error
            if lowest < best.error:
                return


def _within_groups(metric: np.ndarray, structure: Any) -> np.ndarray:
    """M, or its blocks between features of equal group labels."""
    if isinstance(structure, str):
        return metric
    return np.where(np.equal.outer(structure, structure), metric, 0.0)


def square_root(metric: np.ndarray) -> np.ndarray:
    """(d, r) with root root' = M, columns by falling length, without eigenvalues below eps times
    the largest."""
    eigenvalues, vectors = np.linalg.eigh(metric)
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    significant = eigenvalues > np.finfo(np.float32).eps * eigenvalues[0]
    return vectors[:, significant] * np.sqrt(eigenvalues[significant])
