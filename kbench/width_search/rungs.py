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
    steps_per_row: int  # limit on steps for each training row
    is_cross: bool = False  # whether its points are the neighbours of the minimum

    @property
    def n_rows(self) -> int:
        return len(self.pairs[0][0])

    @property
    def is_local(self) -> bool:
        return self.kind == "cell"

    @property
    def t_and_local(self) -> tuple[float, float]:
        """(t, local) of `kbench.width_search.surface`.

        In a neighbourhood half of the rows around the validation rows train, so t = -1.
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
    largest_coef: float  # absolute value of the largest dual coefficient, as a multiple of C
    seconds: float  # of the model of one pair


def folds_or_samples(order: np.ndarray, max_values: float, steps_per_row: int) -> Rung:
    """The rung of all rows that takes at most `max_values` kernel values for each width.

    k folds train on n (k - 1) / k rows each, which takes n^2 (k - 1)^2 / k values. If even two
    folds take more, there are two samples, each validated on other rows.
    """
    n = len(order)
    for k in constants.FOLDS:
        if n**2 * (k - 1) ** 2 / k <= max_values:
            folds = np.array_split(np.arange(n), min(k, n))
            # Folds are ranges of the order, because classes of equal size take turns in it: every
            # k-th row could be of one class.
            pairs = [(np.delete(order, held_out), order[held_out]) for held_out in folds]
            return Rung("fold", pairs, n, steps_per_row)
    n_sampled, pairs = math.isqrt(int(max_values / 2)), []
    for start in (0, n_sampled):
        others = np.concatenate([order[start + n_sampled :], order[:start]])
        pairs.append((order[start : start + n_sampled], others[: constants.VALIDATION_ROWS]))
    return Rung("sample", pairs, n, steps_per_row)


def neighbourhoods(
    rows: PreparedRows, rng: np.random.Generator, steps_per_row: int, is_cross: bool = False
) -> Rung:
    """The rung of neighbourhoods of random rows, the last of which `measure` may leave out."""
    centres = rng.integers(len(rows), size=constants.MAX_NEIGHBOURHOODS)
    pairs = [_neighbourhood(rows, int(centre), rng) for centre in centres]
    return Rung("cell", pairs, len(rows), steps_per_row, is_cross)


def _neighbourhood(
    rows: PreparedRows, centre: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation rows around a row; a random half of the inner rows validates."""
    nearest = rows.nearest(centre, constants.LOCAL_ROWS)
    n_validation = int(constants.LOCAL_VALIDATION * len(nearest))
    inner = rng.permutation(nearest[: 2 * n_validation])
    training = np.concatenate([inner[n_validation:], nearest[2 * n_validation :]])
    return training, inner[:n_validation]


class _StageTimer:
    """Decides whether a stage may begin, by its work and the seconds per work of the last stage."""

    def __init__(self, deadline: Deadline, trace: Trace) -> None:
        self._deadline, self._trace = deadline, trace
        self._rate = 0.0  # seconds for each unit of work

    def may_begin(self, work: float) -> bool:
        seconds_left = self._deadline.seconds_left()
        self._start, self._work = self._trace.running_s(), work
        return seconds_left is None or (seconds_left > 0.0 and self._rate * work <= seconds_left)

    def end(self) -> float:
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
    n_rows, solved, largest_coef = np.zeros(q, int), np.ones(q, bool), np.zeros(q)
    support_fractions, seconds = np.zeros(q), np.full(q, np.nan)
    # Widths in the middle (u = 1) first: the deadline may leave no time for the others.
    log_widths = sorted({point.u for point in points}, key=lambda u: (abs(u - 1.0), u))
    timer = _StageTimer(deadline, trace)
    pairs = rung.pairs
    if not rung.is_local:
        pairs = [subset for pair in pairs for subset in task.subproblems(rows, *pair)]
    for pair_number, (training, validation) in enumerate(pairs):
        # Further neighbourhoods are left out once the error of the best point is precise.
        precise = _relative_error(losses[losses[:, 0].argmin()]) <= constants.LOCAL_ERRORS**-0.5
        if rung.is_local and pair_number and precise:
            break
        training = task.arranged(training)
        constant = task.constant_losses(training, validation)
        if constant is not None:
            losses += constant
            n_rows += len(validation)
            continue
        gram: Gram = rows.gram(training, validation)
        for u in log_widths:
            ordered_points = sorted((p.v, i) for i, p in enumerate(points) if p.u == u)
            point_indices = [i for _, i in ordered_points]
            gamma, Cs = rows.unit * 2.0**u, [2.0**v for v, _ in ordered_points]
            if not timer.may_begin(float(len(training)) ** 2 * len(Cs)):
                break
            max_steps = rung.steps_per_row * len(training)
            try:
                result = task.losses(gram, gamma, Cs, training, validation, max_steps, deadline)
            except OutOfTime:
                break
            # A deadline may have left out the last values of C.
            point_indices = point_indices[: len(result.losses)]
            seconds[point_indices] = task.subproblem_factor * timer.end() / len(point_indices)
            losses[point_indices] += result.losses
            n_rows[point_indices] += len(validation)
            solved[point_indices] &= result.solved
            support_fractions[point_indices] = result.support_fraction
            largest_coef[point_indices] = np.maximum(
                largest_coef[point_indices], result.largest_coef
            )
            if len(point_indices) < len(Cs):
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
            _relative_error(losses[i]),
            bool(solved[i]),
            float(support_fractions[i]),
            float(largest_coef[i]),
            float(np.nan_to_num(seconds[i])),
        )
        for i in range(q)
    ]


def _relative_error(sums: np.ndarray) -> float:
    """Sampling error of a sum of losses, divided by the sum; sums : loss, squared loss, weight."""
    return float(min(np.sqrt(sums[1]) / sums[0], 1.0)) if sums[0] > 0.0 else 1.0
