"""Search for kernel width and C of a support vector machine on the training rows alone.

    rung 1: a coarse grid of (gamma, C) on a thousand rows
    rung r: points that the surface of the errors so far proposes, on more rows
    answer: minimum of the surface near the points tried, for a model of all rows (for t = -1/2
            and local = 1/2 after neighbourhoods, `LOCAL_GOAL`)

A rung is a list of pairs of training and validation rows, limited to a number of kernel values for
each width; it has as many folds as fit, or else two samples. One kernel matrix for each gamma and
pair serves all C.

If the two halves of all rows exceed the last rung, smaller samples mislead: the best gamma of
covtype is 1 for 5,000 rows, 17 for 10,000 and 40 for 74,370. So the next rungs are neighbourhoods:
the 2,000 rows nearest to a random row; 400 rows drawn from the 800 nearest ones validate, the other
1,600 train. A neighbourhood has nearly the density of the data, and shows the optimum of a local
model. A sample follows and shows what a local model misses. If the caller will not compare larger
models, because they take too long, other neighbourhoods measure the surroundings of the optimum.

If the errors of neighbourhoods do not depend on the parameters, samples take their place.

A deadline may pass at any time. A stage is the models of one width on one pair: it is not begun if
the seconds of the last stage make it likely to end too late, and a stage in progress at the
deadline ends between two slices of steps. What was measured by then decides (docs/tuned.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kbench.trace import Deadline, Trace
from kbench.width_search import constants
from kbench.width_search.gram import PreparedRows
from kbench.width_search.rungs import (
    Measured,
    Pairs,
    Rung,
    SearchPoint,
    folds_or_samples,
    measure,
    neighbourhoods,
)
from kbench.width_search.surface import Surface
from kbench.width_search.tasks import SearchTargets

# Rows up to which both halves of all rows fit into the last rung of classes: 16,384.
FEW_ROWS = math.isqrt(2 * constants.LAST_VALUES)
# Points of the last neighbourhoods, in octaves of gamma and C from the minimum so far: the minimum,
# its neighbours, and smaller gamma with larger C, the direction in which errors change least. Set
# by hand.
_CROSS_OFFSETS = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (-1, 1)])


@dataclass
class WidthSearchResult:
    """The chosen gamma and C, and the measured model nearest to them."""

    # Name -> an entry for each point of each rung.
    columns: dict[str, list] = field(
        default_factory=lambda: {
            name: []
            for name in ("rung", "rows", "n_rows", "gamma", "C", "error", "n_validation", "solved")
        }
    )
    gamma: float = 1.0
    C: float = 1.0
    # Held-out error of the last rung at the point nearest to the answer; nan if the deadline passed
    # before any model was measured.
    error: float = np.nan
    n_validation: int = 0  # Rows that `error` was measured on
    relative_deviation: float = 1.0  # Sampling error of `error` as a fraction of `error`
    support_fraction: float = 1.0  # Fraction of its training rows that were support vectors
    # Whether the errors of neighbourhoods did not depend on the parameters.
    flat_neighbourhoods: bool = False
    solved: bool = True  # Whether the nearest model reached its tolerance within the limit on steps
    # Whether other neighbourhoods came last in place of the caller's comparison of larger models.
    ends_with_neighbourhoods: bool = False
    # Indices of training and validation rows of the nearest model, to fit it again.
    training: np.ndarray | None = None
    validation: np.ndarray | None = None
    # Wall seconds of the nearest model, divided by the square of its training rows: what larger
    # models are expected to take. 0 if nothing was measured.
    seconds_per_square: float = 0.0

    def record(self, number: int, kind: str, measured: Measured, gamma: float, C: float) -> None:
        """Append the entry of a point to every column; number, kind : of its rung."""
        line = (
            number,
            kind,
            measured.n_training,
            gamma,
            C,
            measured.error,
            measured.n_rows,
            measured.solved,
        )
        for column, value in zip(self.columns.values(), line, strict=True):
            column.append(value)


class FirstRung:
    """The coarse grid, measured on a thousand rows in one scaling, metric and kernel.

    Attributes
    ----------
    task : SearchTargets
        A task keeps what `adapt` needs of the errors of its rows, so each first rung has its own.
    error : float
        Lowest error of the grid; infinite if the deadline passed before any was measured.
    deviation : float. Sampling error of `error` as a fraction of it.
    """

    def __init__(
        self,
        rows: PreparedRows,
        task: SearchTargets,
        order: np.ndarray,
        deadline: Deadline,
        trace: Trace,
    ) -> None:
        self.task, self.order = task, order
        steps = min(constants.STEPS, task.steps_per_row)
        grid = _grid(constants.WIDTHS[1::2], constants.CS[1::2])
        self.points = [SearchPoint(*point) for point in grid]
        n_values = constants.GRID_VALUES
        if (seconds_left := deadline.seconds_left()) is not None:
            # The seconds of one width on few rows decide how many rows the grid may have.
            pilot = folds_or_samples(order, n_values / constants.PILOT_FACTOR, steps)
            middle = [point for point in self.points if point.u == 1.0]
            measure(rows, task, pilot, middle, deadline, trace)
            seconds = seconds_left - (deadline.seconds_left() or 0.0)
            expected = constants.PILOT_FACTOR * seconds * len(self.points) / len(middle)
            affordable = seconds_left / max(expected, 1e-9)  # guard
            n_values = int(n_values * min(max(affordable, 1.0 / constants.PILOT_FACTOR), 1.0))
        self.rung = folds_or_samples(order, n_values, steps)
        self.measurements = measure(rows, task, self.rung, self.points, deadline, trace)
        models = [measured for measured in self.measurements if measured is not None]
        best = min(models, key=lambda measured: measured.error, default=None)
        self.error = np.inf if best is None else best.error
        self.deviation = 0.0 if best is None else best.deviation

    def is_lower_than(self, other: "FirstRung", min_gain: float = 0.0) -> bool:
        """Whether the error is lower by more than sampling error and the fraction `min_gain`."""
        noise = constants.STANDARD_ERRORS * constants.PAIRED_DEVIATION * other.deviation
        return self.error < (1.0 - max(noise, min_gain)) * other.error


class _Observations:
    """What has been measured so far, as the surface needs it."""

    def __init__(self, task: SearchTargets) -> None:
        self._task = task
        self.points = np.empty((0, 4))
        self.log_errors = self.deviations = np.empty(0)
        self.rungs = np.empty(0, int)
        self.measured: list[Measured] = []
        self.pairs: list[Pairs] = []

    def add(
        self, number: int, rung: Rung, points: list[SearchPoint], measured: list[Measured]
    ) -> None:
        errors = np.array([m.error for m in measured])
        sampling = np.array([m.deviation for m in measured])
        sampling += constants.UNSOLVED_DEVIATION * ~np.array([m.solved for m in measured])
        # Half a wrong row, so that an error of 0 has a logarithm.
        floor = 0.5 / np.array([m.n_rows for m in measured])
        self.points = np.vstack([self.points, [(*point, *rung.t_and_local) for point in points]])
        self.log_errors = np.append(
            self.log_errors, np.log(np.minimum(errors, self._task.constant_error) + floor)
        )
        self.deviations = np.append(self.deviations, constants.PAIRED_DEVIATION * sampling)
        self.rungs = np.append(self.rungs, np.full(len(points), number))
        self.measured += measured
        self.pairs += [rung.pairs] * len(points)

    def surface(self, used: np.ndarray) -> Surface:
        return Surface(
            self.points[used], self.log_errors[used], self.rungs[used], self.deviations[used]
        )

    def on_pairs(self, pairs: Pairs) -> np.ndarray:
        """Mask of the observations that were made on these pairs of rows."""
        return np.array([tried is pairs for tried in self.pairs], bool)


def search(
    rows: PreparedRows,
    task: SearchTargets,
    rng: np.random.Generator,
    deadline: Deadline,
    trace: Trace,
    first: FirstRung | None = None,
    compared_entries: float = np.inf,
) -> WidthSearchResult:
    """Choose gamma and C.

    task : Targets, and the error to be minimised
    deadline : When it passes, what has been measured decides
    trace : Receives the validation error of every point
    first : The first rung of these rows, if it has been measured
    compared_entries : Kernel values of the exact fit, n^2 times the fraction of support vectors, up
        to which the caller compares larger models. Beyond, other neighbourhoods come last.
    """
    if first is None:
        first = FirstRung(rows, task, task.order(rng), deadline, trace)
    result, seen = WidthSearchResult(), _Observations(task)
    plan = _plan(rows, first, rng, task)
    has_neighbourhoods = any(rung.is_local for rung in plan)
    goal = constants.LOCAL_GOAL if has_neighbourhoods else (0.0, 0.0)
    points, measurements = first.points, first.measurements
    # Masks of observations: which ones the surface takes, and near which the answer is chosen.
    in_surface = near_answer = np.empty(0, bool)
    surface: Surface | None = None
    number = -1
    while plan:  # further rungs may be added meanwhile
        number, rung = number + 1, plan.pop(0)
        if surface is not None:
            if deadline.passed:
                break
            points = _points_to_measure(surface, seen, rung, goal, near_answer)
            if not points:
                continue
            measurements = measure(rows, task, rung, points, deadline, trace)
        done = [(point, m) for point, m in zip(points, measurements, strict=True) if m is not None]
        if not done:
            break
        for point, measured in done:
            gamma, C = rows.unit * 2.0**point.u, task.scale_of_c * 2.0**point.v
            trace(validation_error=measured.error, gamma=gamma, C=C, n_rows=measured.n_training)
            result.record(number, rung.kind, measured, gamma, C)
        seen.add(number, rung, [point for point, _ in done], [measured for _, measured in done])
        if number == 0:
            task.adapt(first.error)
        if rung.is_local and plan and _is_flat(done):
            # Only samples show how errors depend on the parameters: in place of neighbourhoods,
            # each sample gets two rungs of points.
            result.flat_neighbourhoods, goal = True, (0.0, 0.0)
            plan[:] = [other for other in plan if not other.is_local for _ in range(2)]
        best = min((measured for _, measured in done), key=lambda measured: measured.error)
        is_too_large = len(rows) ** 2 * best.support_fraction > compared_entries
        is_last_rung = not (plan or result.flat_neighbourhoods or rung.is_local)
        if has_neighbourhoods and is_last_rung and is_too_large:
            plan.append(neighbourhoods(rows, rng, task.steps_per_row, is_cross=True))
            result.ends_with_neighbourhoods = True
        in_surface = (seen.points[:, 3] == 0.0) | (not result.flat_neighbourhoods)
        surface = seen.surface(in_surface)
        near_answer = in_surface & (seen.rungs >= min(number, 1))
        cut = len(done) < len(points)
        if cut or not near_answer.any():
            # The deadline passed within this rung, so that the order of its points, not their
            # errors, chose the measured ones; or only flat neighbourhoods followed the coarse grid.
            near_answer = in_surface
    if surface is None:
        result.gamma, result.C = rows.unit, task.scale_of_c
    else:
        # The last rung of the surface was measured on the most rows.
        last = seen.on_pairs(seen.pairs[int(np.flatnonzero(in_surface)[-1])])
        _choose(result, rows, task, seen, surface, in_surface if cut else last, near_answer, goal)
    return result


def _points_to_measure(
    surface: Surface,
    seen: _Observations,
    rung: Rung,
    goal: tuple[float, float],
    near_answer: np.ndarray,
) -> list[SearchPoint]:
    """The points to measure on a rung: those around the minimum, or those the surface proposes."""
    if rung.is_cross:
        chosen = _minimum(surface, seen, near_answer, goal) + _CROSS_OFFSETS
    else:
        candidates = _grid(constants.WIDTHS, constants.CS)
        tried = (candidates[:, None] == seen.points[seen.on_pairs(rung.pairs), :2]).all(axis=2)
        chosen = surface.propose(
            candidates, rung.t_and_local, goal, constants.POINTS_PER_RUNG, tried.any(axis=1)
        )
    return [SearchPoint(*point) for point in chosen]


def _choose(
    result: WidthSearchResult,
    rows: PreparedRows,
    task: SearchTargets,
    seen: _Observations,
    surface: Surface,
    candidates: np.ndarray,
    near_answer: np.ndarray,
    goal: tuple[float, float],
) -> None:
    """Set gamma and C of the result, and the measurements of the candidate nearest to them.

    surface : Its minimum is the answer, a point (u, v): log2 of gamma in units of `rows.unit`, and
        of C in units of `task.scale_of_c`
    candidates : Mask of the observations whose measurements may describe the answer
    near_answer : Mask of the observations near which the minimum is searched
    goal : (t, local), for which rows the surface is minimised (`constants.LOCAL_GOAL`)
    """
    u, v = _minimum(surface, seen, near_answer, goal)
    distance = np.abs(seen.points[candidates, :2] - (u, v)).sum(axis=1)
    nearest = int(np.flatnonzero(candidates)[distance.argmin()])
    measured = seen.measured[nearest]
    if measured.solved:
        # Lower C to `BOUND_MARGIN` times the largest coefficient of the nearest model: a bound that
        # no coefficient comes near changes the solver's steps, not the solution. `largest_coef` is
        # a fraction of that model's C. Guard: 2^-20 keeps the logarithm finite if all are zero.
        margin = max(constants.BOUND_MARGIN * measured.largest_coef, 2.0**-20)
        v = min(v, seen.points[nearest, 1] + math.log2(margin))
    result.gamma, result.C = float(rows.unit * 2.0**u), float(task.scale_of_c * 2.0**v)
    result.error, result.n_validation = measured.error, measured.n_rows
    result.relative_deviation = measured.deviation
    result.support_fraction, result.solved = measured.support_fraction, measured.solved
    result.training, result.validation = seen.pairs[nearest][0]
    result.seconds_per_square = measured.seconds / measured.n_training**2


def _grid(us: np.ndarray, vs: np.ndarray) -> np.ndarray:
    return np.array([(u, v) for u in us for v in vs])


def _minimum(
    surface: Surface, seen: _Observations, near_answer: np.ndarray, goal: tuple[float, float]
) -> np.ndarray:
    """Minimum (u, v) of the surface at the goal, near the observations of the mask; (2,)."""
    near_points, trust = seen.points[near_answer, :2], constants.TRUST_RADIUS
    low, high = near_points.min(axis=0) - trust, near_points.max(axis=0) + trust
    fine = _grid(*(np.arange(low[i], high[i] + 1e-9, constants.SPACING) for i in (0, 1)))
    candidates = fine[np.abs(fine[:, None] - near_points).max(axis=2).min(axis=1) <= trust]
    mean = surface.mean(np.column_stack([candidates, np.tile(goal, (len(candidates), 1))]))
    octave_cost = (
        constants.OCTAVE_COST * np.median(seen.deviations[near_answer]) / constants.PAIRED_DEVIATION
    )
    cost_of_large_c = constants.LARGE_C_COST * np.maximum(candidates[:, 1] - constants.LARGE_C, 0.0)
    return candidates[(mean + octave_cost * candidates.sum(axis=1) + cost_of_large_c).argmin()]


def _plan(
    rows: PreparedRows, first: FirstRung, rng: np.random.Generator, task: SearchTargets
) -> list[Rung]:
    """The first rung and those after it; of many rows two rungs on the same neighbourhoods."""
    n, order = len(rows), first.order
    if n <= FEW_ROWS:
        budgets = (constants.SECOND_VALUES, task.last_rung_values)
        return [
            first.rung,
            *(folds_or_samples(order, budget, task.steps_per_row) for budget in budgets),
        ]
    local = neighbourhoods(rows, rng, task.steps_per_row)
    return [
        first.rung,
        local,
        local,
        folds_or_samples(order, constants.SAMPLE_VALUES, task.steps_per_row),
    ]


def _is_flat(done: Sequence[tuple[SearchPoint, Measured]]) -> bool:
    """Whether errors at very different widths differ by less than their sampling error."""
    us = [point.u for point, _ in done]
    errors = [measured.error for _, measured in done]
    deviation = min(measured.deviation for _, measured in done)
    is_wide = max(us) - min(us) >= constants.FLAT_OCTAVES
    return is_wide and max(errors) <= (1.0 + deviation) * min(errors)
