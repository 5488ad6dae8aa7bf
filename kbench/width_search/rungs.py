"""A rung of the search: pairs of training and validation rows, and models measured on them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kbench.trace import Deadline, Trace
from kbench.width_search import constants
from kbench.width_search.c_path import OutOfTime
from kbench.width_search.gram import Gram, PreparedRows
from kbench.width_search.tasks import SearchTargets


class SearchPoint(NamedTuple):
    """Kernel width and C as logarithms to base 2, the width in units of the median distance."""

    u: float
    v: float


# Indices of training rows and of validation rows.
Pairs = list[tuple[np.ndarray, np.ndarray]]


@dataclass
class Rung:
    """Pairs of training and validation rows, and limits of the models on them."""

    kind: str  # "fold", "sample" or, for neighbourhoods, "cell"
    pairs: Pairs
    n_all: int  # number of all training rows of the search
    steps: int  # limit on steps for each training row
    is_cross: bool = False  # whether its points are the neighbours of the minimum

    @property
    def n_rows(self) -> int:
        return len(self.pairs[0][0])

    @property
    def is_local(self) -> bool:
        return self.kind == "cell"

    @property
    def place(self) -> tuple[float, float]:
        """(t, local) of `kbench.width_search.surface`.

        Around validation rows of a neighbourhood half of the rows train: t = -1.
        """
        return (-1.0, 1.0) if self.is_local else (math.log2(self.n_rows / self.n_all), 0.0)


class Measured(NamedTuple):
    """Held-out error of a point over the pairs of a rung that were measured."""

    error: float
    n_training: int  # of a pair
    n_rows: int  # validation rows
    deviation: float  # of the logarithm of the error
    solved: bool
    support_fraction: float
    largest: float  # absolute value of the largest dual coefficient, as a multiple of C
    seconds: float  # of the model of one pair


def folds_or_samples(order: np.ndarray, max_values: float, steps: int) -> Rung:
    """The rung of all rows that takes at most `max_values` kernel values for each width.

    k folds train on n (k - 1) / k rows each, which takes n^2 (k - 1)^2 / k values. If even two
    folds take more, there are two samples, each validated on other rows.
    """
    n = len(order)
    for k in constants.FOLDS:
        if n**2 * (k - 1) ** 2 / k <= max_values:
            folds = np.array_split(np.arange(n), min(k, n))
            # Ranges of the order, not every k-th row: in it, classes of equal size take turns.
            pairs = [(np.delete(order, held_out), order[held_out]) for held_out in folds]
            return Rung("fold", pairs, n, steps)
    size, pairs = math.isqrt(int(max_values / 2)), []
    for start in (0, size):
        others = np.concatenate([order[start + size :], order[:start]])
        pairs.append((order[start : start + size], others[: constants.VALIDATION_ROWS]))
    return Rung("sample", pairs, n, steps)


def neighbourhoods(
    rows: PreparedRows, rng: np.random.Generator, steps: int, is_cross: bool = False
) -> Rung:
    """The rung of neighbourhoods of random rows, the last of which `measure` may leave out."""
    centres = rng.integers(len(rows), size=constants.MAX_NEIGHBOURHOODS)
    pairs = [_neighbourhood(rows, int(centre), rng) for centre in centres]
    return Rung("cell", pairs, len(rows), steps, is_cross)


def _neighbourhood(
    rows: PreparedRows, centre: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation rows around a row; a random half of the inner rows validates."""
    nearest = rows.nearest(centre, constants.LOCAL_ROWS)
    n_validation = int(constants.LOCAL_VALIDATION * len(nearest))
    inner = rng.permutation(nearest[: 2 * n_validation])
    training = np.concatenate([inner[n_validation:], nearest[2 * n_validation :]])
    return training, inner[:n_validation]


class _Pace:
    """Whether a stage may begin: its seconds are estimated from the last stage's, by its work."""

    def __init__(self, deadline: Deadline, trace: Trace) -> None:
        self._deadline, self._trace = deadline, trace
        self._rate = 0.0  # seconds for each unit of work

    def may_begin(self, work: float) -> bool:
        left = self._deadline.seconds_left()
        self._start, self._work = self._trace.running_s(), work
        return left is None or (left > 0.0 and self._rate * work <= left)

    def ended(self) -> float:
        """Seconds since the stage began."""
        seconds = self._trace.running_s() - self._start
        self._rate = seconds / self._work
        return seconds


def measure(
    rows: PreparedRows,
    task: SearchTargets,
    rung: Rung,
    points: Sequence[SearchPoint],
    deadline: Deadline,
    trace: Trace,
) -> list[Measured | None]:
    """Measure every point of a rung; None for points that the deadline left no time for."""
    q = len(points)
    losses = np.zeros((q, 3))  # sums of loss, squared loss and weight
    n_rows, solved, largest = np.zeros(q, int), np.ones(q, bool), np.zeros(q)
    support, seconds = np.zeros(q), np.full(q, np.nan)
    # Widths in the middle (u = 1) first: the deadline may leave no time for the others.
    us = sorted({point.u for point in points}, key=lambda u: (abs(u - 1.0), u))
    pace = _Pace(deadline, trace)
    pairs = rung.pairs
    if not rung.is_local:
        pairs = [subset for pair in pairs for subset in task.subproblems(rows, *pair)]
    for number, (training, validation) in enumerate(pairs):
        # Further neighbourhoods are left out once the error of the best point is precise.
        precise = _relative(losses[losses[:, 0].argmin()]) <= constants.LOCAL_ERRORS**-0.5
        if rung.is_local and number and precise:
            break
        training = task.arranged(training)
        constant = task.constant_losses(training, validation)
        if constant is not None:
            losses += constant
            n_rows += len(validation)
            continue
        gram: Gram = rows.gram(training, validation)
        for u in us:
            places = sorted((p.v, i) for i, p in enumerate(points) if p.u == u)
            which = [i for _, i in places]
            gamma, Cs = rows.unit * 2.0**u, [2.0**v for v, _ in places]
            if not pace.may_begin(float(len(training)) ** 2 * len(Cs)):
                break
            max_steps = rung.steps * len(training)
            try:
                result = task.losses(gram, gamma, Cs, training, validation, max_steps, deadline)
            except OutOfTime:
                break
            # A deadline may have left out the last values of C.
            which = which[: len(result.losses)]
            seconds[which] = task.subproblem_factor * pace.ended() / len(which)
            losses[which] += result.losses
            n_rows[which] += len(validation)
            solved[which] &= result.solved
            support[which] = result.support_fraction
            largest[which] = np.maximum(largest[which], result.largest)
            if len(which) < len(Cs):
                break
        else:
            continue
        break
    n_training = rung.n_rows
    return [
        None
        if n_rows[i] == 0
        else Measured(
            float(losses[i, 0] / losses[i, 2]),
            n_training,
            int(n_rows[i]),
            _relative(losses[i]),
            bool(solved[i]),
            float(support[i]),
            float(largest[i]),
            float(np.nan_to_num(seconds[i])),
        )
        for i in range(q)
    ]


def _relative(sums: np.ndarray) -> float:
    """Sampling error of a sum of losses as a fraction of it; sums : loss, squared loss, weight."""
    return float(min(np.sqrt(sums[1]) / sums[0], 1.0)) if sums[0] > 0.0 else 1.0
