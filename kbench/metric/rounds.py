"""The rounds of a recursive feature machine on given rows: metrics and their held-out errors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.metric.gradients import gradient_outer_product
from kbench.metric.ridge_problem import LARGER_RIDGES, Problem

# Factor by which a width is changed while that lowers the held-out error, and how often at most:
# an octave up to three octaves. Set by hand.
_WIDTH_STEP, _MAX_WIDTH_STEPS = 2.0, 3
# Rounds end when the held-out error is at least this multiple of the lowest one: during the search,
# where a round is cheap and a later one may be better, and at full size. Set by hand.
_MAX_RISE, MAX_RISE_AT_FULL_SIZE = 1.05, 1.0
# Most features that the Laplacian kernel weighs, those with the largest gradients of a Matern
# ridge regression: its distances are no matrix products, and take about 10 times as long for a
# feature (`scripts/bench_metric.py`).
MAX_L1 = 128


@dataclass(frozen=True)
class Candidate:
    """One metric that was tried, with its error on the held-out rows."""

    error: float
    n_round: int
    kernel: str
    structure: str
    ridge: float
    gamma: float
    width: float  # multiple of `ridge_problem._WIDTH` times the median distance
    root: np.ndarray  # (d, r), M = root root' on standardised features; (d,) of a diagonal M
    n_rows: int


@dataclass(frozen=True)
class Rounds:
    """Learns metrics from the gradients of ridge regressions.

    Attributes
    ----------
    n_rounds : int
    gradient_rows : int
        Rows at which gradients are taken.
    rng : RandomState
    """

    n_rounds: int
    gradient_rows: int
    rng: np.random.RandomState

    def steepest(self, data: Problem, ridges: Sequence[float]) -> np.ndarray:
        """The features along which a Matern ridge regression changes most; (min(d, 128),) ints."""
        d = data.X.shape[1]
        root = np.full(d, d**-0.5)
        Z, matrix, _ = data.matrix(root, "matern12", 1.0, self.rng)
        coef = data.solve(root, matrix, ridges)[2]
        gradient_rows = self.rng.permutation(len(Z))[: self.gradient_rows]
        squares = gradient_outer_product(matrix, Z, coef, gradient_rows, diagonal=True)
        return np.argsort(-squares, kind="stable")[:MAX_L1]

    def metrics(
        self,
        data: Problem,
        kernel: str,
        structure: Any,
        *,
        ridges: Sequence[float],
        width: float = 1.0,
        n_rounds: int | None = None,
        max_rise: float = _MAX_RISE,
    ) -> Iterator[Candidate]:
        """The metrics of rounds 0, 1, ..., each with the best of the ridges.

        Parameters
        ----------
        data : Problem
        kernel : str
        structure : "full", "diagonal" or (d,) ints
            Numbers of groups of features, between which M is zero.
        ridges : sequence of float
            `Problem.solve` adds `LARGER_RIDGES` to them where those are better.
        width : float
            Of the kernel, as in `Candidate`.
        n_rounds : int, optional
            Limit on the rounds, below that of the object.
        max_rise : float
            The multiple of the lowest error at which the rounds end.
        """
        n, d = data.X.shape
        n_rounds = self.n_rounds if n_rounds is None else min(n_rounds, self.n_rounds)
        diagonal = isinstance(structure, str) and structure == "diagonal"
        root = np.full(d, d**-0.5) if diagonal else np.eye(d) / np.sqrt(d)
        if kernel == "laplacian" and data.steep is not None:
            root = np.zeros(d)
            root[data.steep] = len(data.steep) ** -0.5
        gradient_rows = self.rng.permutation(n)[: self.gradient_rows]
        name = structure if isinstance(structure, str) else "blocks"
        lowest, tried_ridges = np.inf, ridges
        for n_round in range(n_rounds + 1):
            Z, matrix, gamma = data.matrix(root, kernel, width, self.rng)
            error, ridge, coef = data.solve(root, matrix, tried_ridges)
            yield Candidate(error, n_round, kernel, name, ridge, gamma, width, root, n)
            if n_round == n_rounds or error >= max_rise * lowest:
                return
            lowest = min(lowest, error)
            # The best ridge of a round is seldom far from that of the round before.
            if len(ridges) > 1:
                known = (*ridges, *LARGER_RIDGES)
                place = known.index(ridge)
                tried_ridges = known[max(place - 1, 0) : place + 2]
            G = gradient_outer_product(matrix, Z, coef, gradient_rows, diagonal=diagonal)
            del matrix
            # Gradients with respect to z = root' x become those with respect to x.
            if diagonal:
                metric = np.zeros(d)
                metric[root > 0.0] = root[root > 0.0] * G * root[root > 0.0]
            else:
                metric = _blocks(matmul(matmul(root, G), root.T), structure)
            total = float(metric.sum() if diagonal else np.trace(metric))
            if not np.isfinite(total) or total <= 0.0:
                # A constant function has no gradients: there is nothing to learn.
                return
            root = np.sqrt(metric / total) if diagonal else square_root(metric / total)

    def widths(
        self,
        data: Problem,
        best: Candidate,
        ridges: Sequence[float],
    ) -> Iterator[Candidate]:
        """The best metric with narrower kernels, or wider ones, as long as that helps."""
        for step in (1.0 / _WIDTH_STEP, _WIDTH_STEP):
            lowest, width = best.error, best.width
            for _ in range(_MAX_WIDTH_STEPS):
                width *= step
                _, matrix, gamma = data.matrix(best.root, best.kernel, width, self.rng)
                error, ridge, _ = data.solve(best.root, matrix, ridges)
                yield replace(best, error=error, ridge=ridge, gamma=gamma, width=width)
                if error >= lowest:
                    break
                lowest = error
            if lowest < best.error:
                return


def _blocks(metric: np.ndarray, structure: Any) -> np.ndarray:
    """M, or its blocks between features of equal group labels."""
    if isinstance(structure, str):
        return metric
    return np.where(np.equal.outer(structure, structure), metric, 0.0)


def square_root(metric: np.ndarray) -> np.ndarray:
    """(d, r) with root root' = M, columns by falling length, without eigenvalues below eps of the
    largest."""
    values, vectors = np.linalg.eigh(metric)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > np.finfo(np.float32).eps * values[0]
    return vectors[:, kept] * np.sqrt(values[kept])
