"""Search for kernel width and C of a support vector machine on the training rows alone.

    rung 1: a coarse grid of (gamma, C) on a thousand rows
    rung r: points that the surface of the errors so far proposes, on more rows
    answer: minimum of the surface at all rows (after cells: halfway to all rows), among the points
            near those tried

A rung is a list of pairs of training and validation rows, bought with a number of kernel values for
each width: as many folds as it pays for, or else two samples. One kernel matrix for each gamma and
pair serves all C.

Where all rows are too many for the halves of the last rung, smaller samples mislead: the best gamma
of covtype is 1 for 5,000 rows, 17 for 10,000 and 40 for 74,370. So the next rungs are cells: the
2,000 rows nearest to a random row, of which 400 of the inner 800 are validation rows. A cell has
nearly the density of the data, and shows the optimum of a local model. A sample follows and shows
what a local model misses. Where larger models are not compared afterwards, because they take too
long, other cells come last and measure the neighbourhood of the optimum.

Where the errors of cells do not depend on the parameters, samples take the place of cells.

A deadline may pass at any time: a stage, the models of one width on one pair, is not begun if the
last one makes it likely to end too late, and ends between two problems if it was. What has been
measured until then decides (docs/tuned.md).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kbench.trace import Deadline, Trace
from kbench.width_search import constants
from kbench.width_search.gram import Rows
from kbench.width_search.rungs import Measured, Pairs, Point, Rung, cells, divided, run
from kbench.width_search.surface import Surface
from kbench.width_search.tasks import Task

# Rows up to which both halves of all rows fit into the last rung of classes: 16,384.
FEW_ROWS = math.isqrt(2 * constants.LAST_VALUES)
# Points of the last cells, in octaves of gamma and C from the minimum so far: its neighbours, and
# one in the direction in which errors change least.
_CROSS = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (-1, 1)])
# Kernel values of the first grid as a multiple of those of the pilot, one width on few rows that
# shows how long the grid would take. A smaller pilot is less exact, a larger one costs more of the
# time limit. Set by hand.
_PILOT = 64


@dataclass
class Search:
    """Results of the search."""

    # An entry for each point of each rung: rung, rows, n_rows, gamma, C, error, n_validation,
    # solved.
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
    n_validation: int = 0  # Rows that it was measured on
    relative_deviation: float = 1.0  # Sampling error of `error` as a fraction of it
    support_fraction: float = 1.0  # Fraction of training rows that were support vectors there
    flat_cells: bool = False  # Whether the errors of cells did not depend on the parameters
    solved: bool = True  # Whether the model there reached its tolerance within the limit on steps
    # Whether other cells came last in place of the caller's comparison of larger models.
    ends_with_cells: bool = False
    # Ints: a pair of rows of that model, from which it can be fitted again.
    training: np.ndarray | None = None
    validation: np.ndarray | None = None
    # Wall seconds of that model, divided by the square of its training rows: what larger models are
    # expected to take. 0 if nothing was measured.
    seconds_per_square: float = 0.0

    def note(self, number: int, kind: str, measured: Measured, gamma: float, C: float) -> None:
        """Add a line to the columns."""
        values = (
            number,
            kind,
            measured.n_training,
            gamma,
            C,
            measured.error,
            measured.n_rows,
            measured.solved,
        )
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)


class FirstRung:
    """The coarse grid, measured on a thousand rows: also a quick look at how good the rows are.

    Attributes
    ----------
    error : float
        Lowest error of the grid; infinite if the deadline passed before any was measured.
    deviation : float. Its sampling error as a fraction of it.
    """

    def __init__(
        self, rows: Rows, task: Task, order: np.ndarray, deadline: Deadline, trace: Trace
    ) -> None:
        self.order = order
        steps = min(constants.STEPS, task.steps)
        grid = _product(constants.WIDTHS[1::2], constants.CS[1::2])
        self.points = [Point(*point) for point in grid]
        values = constants.GRID_VALUES
        if (left := deadline.seconds_left()) is not None:
            # One width on few rows tells what the grid would take, and how many rows it may have.
            pilot = divided(order, values / _PILOT, steps)
            some = [point for point in self.points if point.u == 1.0]
            run(rows, task, pilot, some, deadline, trace)
            seconds = left - (deadline.seconds_left() or 0.0)
            expected = _PILOT * seconds * len(self.points) / len(some)
            values = int(values * min(max(left / max(expected, 1e-9), 1.0 / _PILOT), 1.0))
        self.rung = divided(order, values, steps)
        self.outcome = run(rows, task, self.rung, self.points, deadline, trace)
        found = [measured for measured in self.outcome if measured is not None]
        best = min(found, key=lambda measured: measured.error, default=None)
        self.error = np.inf if best is None else best.error
        self.deviation = 0.0 if best is None else best.deviation


class _Observations:
    """What has been measured so far, as the surface needs it."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.points = np.empty((0, 4))
        self.log_errors = self.deviations = np.empty(0)
        self.rungs = np.empty(0, int)
        self.measured: list[Measured] = []
        self.pairs: list[Pairs] = []

    def add(self, number: int, rung: Rung, points: list[Point], measured: list[Measured]) -> None:
        errors = np.array([m.error for m in measured])
        sampling = np.array([m.deviation for m in measured])
        sampling += constants.UNSOLVED_DEVIATION * ~np.array([m.solved for m in measured])
        floor = 0.5 / np.array([m.n_rows for m in measured])
        self.points = np.vstack([self.points, [(*point, *rung.place) for point in points]])
        self.log_errors = np.append(
            self.log_errors, np.log(np.minimum(errors, self._task.worst) + floor)
        )
        self.deviations = np.append(self.deviations, constants.COMMON * sampling)
        self.rungs = np.append(self.rungs, np.full(len(points), number))
        self.measured += measured
        self.pairs += [rung.pairs] * len(points)

    def surface(self, used: np.ndarray) -> Surface:
        return Surface(
            self.points[used], self.log_errors[used], self.rungs[used], self.deviations[used]
        )

    def on(self, pairs: Pairs) -> np.ndarray:
        """Which observations are of these rows."""
        return np.array([known is pairs for known in self.pairs], bool)


def search(
    rows: Rows,
    task: Task,
    rng: np.random.Generator,
    deadline: Deadline,
    trace: Trace,
    first: FirstRung | None = None,
    compared_entries: float = np.inf,
) -> Search:
    """Choose gamma and C.

    task : Targets, and the error to be minimised
    deadline : When it passes, what has been measured decides
    trace : Receives the validation error of every point
    first : The first rung of these rows, if it has been measured
    compared_entries : Kernel values of the exact fit, n^2 times the fraction of support vectors, up
        to which the caller compares larger models. Beyond, the search ends with other cells.
    """
    if first is None:
        first = FirstRung(rows, task, task.order(rng), deadline, trace)
    result, seen = Search(), _Observations(task)
    plan = _plan(rows, first, rng, task)
    has_cells = any(rung.is_local for rung in plan)
    goal = constants.GOAL_OF_CELLS if has_cells else (0.0, 0.0)
    points, outcome = first.points, first.outcome
    used = refined = np.empty(0, bool)
    surface: Surface | None = None
    for number, rung in enumerate(_growing(plan)):
        if surface is not None:
            if deadline.passed:
                break
            points = _proposed(surface, seen, rung, goal, refined)
            if not points:
                continue
            outcome = run(rows, task, rung, points, deadline, trace)
        kept = [(point, m) for point, m in zip(points, outcome, strict=True) if m is not None]
        if not kept:
            break
        for point, measured in kept:
            gamma, C = rows.unit * 2.0**point.u, task.scale_of_c * 2.0**point.v
            trace(validation_error=measured.error, gamma=gamma, C=C, n_rows=measured.n_training)
            result.note(number, rung.kind, measured, gamma, C)
        seen.add(number, rung, [point for point, _ in kept], [measured for _, measured in kept])
        if number == 0:
            task.adapt(first.error)
        if rung.is_local and plan and _is_flat(kept):
            # Errors of cells are the same for all parameters here; only samples differ.
            result.flat_cells, goal = True, (0.0, 0.0)
            plan[:] = [other for other in plan if not other.is_local for _ in range(2)]
        best = min((measured for _, measured in kept), key=lambda measured: measured.error)
        is_too_large = len(rows) ** 2 * best.support_fraction > compared_entries
        if has_cells and not (plan or result.flat_cells or rung.is_local) and is_too_large:
            plan.append(cells(rows, rng, task.steps, is_cross=True))
            result.ends_with_cells = True
        used = (seen.points[:, 3] == 0.0) | (not result.flat_cells)
        surface = seen.surface(used)
        # Points among whose neighbours the answer is.
        refined = used & (seen.rungs >= min(number, 1))
        cut = len(kept) < len(points)
        if cut or not refined.any():
            # Only cells whose errors are all alike have followed the coarse grid, or the deadline
            # passed within this rung, so that its order, not the errors, chose the points measured.
            refined = used
    if surface is None:
        result.gamma, result.C = rows.unit, task.scale_of_c
    else:
        # The last rung that is used was measured on the most rows.
        last = seen.on(seen.pairs[int(np.flatnonzero(used)[-1])])
        _choose(result, rows, task, seen, surface, used if cut else last, refined, goal)
    return result


def _growing(plan: list[Rung]) -> Iterator[Rung]:
    """The rungs of a plan, to which the caller may add some."""
    while plan:
        yield plan.pop(0)


def _proposed(
    surface: Surface,
    seen: _Observations,
    rung: Rung,
    goal: tuple[float, float],
    refined: np.ndarray,
) -> list[Point]:
    if rung.is_cross:
        chosen = _minimum(surface, seen, refined, goal) + _CROSS
    else:
        candidates = _product(constants.WIDTHS, constants.CS)
        known = (candidates[:, None] == seen.points[seen.on(rung.pairs), :2]).all(axis=2)
        chosen = surface.propose(candidates, rung.place, goal, constants.POINTS, known.any(axis=1))
    return [Point(*point) for point in chosen]


def _choose(
    result: Search,
    rows: Rows,
    task: Task,
    seen: _Observations,
    surface: Surface,
    among: np.ndarray,
    refined: np.ndarray,
    goal: tuple[float, float],
) -> None:
    """Set the answer, and the error of the point nearest to it among some."""
    u, v = _minimum(surface, seen, refined, goal)
    distance = np.abs(seen.points[among, :2] - (u, v)).sum(axis=1)
    nearest = int(np.flatnonzero(among)[distance.argmin()])
    measured = seen.measured[nearest]
    if measured.solved:
        # A bound that no coefficient comes near changes the solver's steps, not the solution.
        v = min(v, seen.points[nearest, 1] + math.log2(max(2.0 * measured.largest, 2.0**-20)))
    result.gamma, result.C = float(rows.unit * 2.0**u), float(task.scale_of_c * 2.0**v)
    result.error, result.n_validation = measured.error, measured.n_rows
    result.relative_deviation = measured.deviation
    result.support_fraction, result.solved = measured.support_fraction, measured.solved
    result.training, result.validation = seen.pairs[nearest][0]
    result.seconds_per_square = measured.seconds / measured.n_training**2


def _product(us: np.ndarray, vs: np.ndarray) -> np.ndarray:
    return np.array([(u, v) for u in us for v in vs])


def _minimum(
    surface: Surface, seen: _Observations, refined: np.ndarray, goal: tuple[float, float]
) -> np.ndarray:
    """Minimum of the surface at the goal near the refined ones of the points seen; (2,) u and v."""
    tried, trust = seen.points[refined, :2], constants.TRUST
    low, high = tried.min(axis=0) - trust, tried.max(axis=0) + trust
    fine = _product(*(np.arange(low[i], high[i] + 1e-9, constants.SPACING) for i in (0, 1)))
    near = fine[np.abs(fine[:, None] - tried).max(axis=2).min(axis=1) <= trust]
    mean = surface.mean(np.column_stack([near, np.tile(goal, (len(near), 1))]))
    octave = constants.SMOOTHER * np.median(seen.deviations[refined]) / constants.COMMON
    dear = constants.DEAR * np.maximum(near[:, 1] - constants.DEAR_C, 0.0)
    return near[(mean + octave * near.sum(axis=1) + dear).argmin()]


def _plan(rows: Rows, first: FirstRung, rng: np.random.Generator, task: Task) -> list[Rung]:
    n, order = len(rows), first.order
    if n <= FEW_ROWS:
        values = (constants.SECOND_VALUES, task.last_values)
        return [first.rung, *(divided(order, budget, task.steps) for budget in values)]
    local = cells(rows, rng, task.steps)
    return [first.rung, local, local, divided(order, constants.SAMPLE_VALUES, task.steps)]


def _is_flat(kept: Sequence[tuple[Point, Measured]]) -> bool:
    """Whether points of very different widths have errors within the sampling error of one."""
    us = [point.u for point, _ in kept]
    errors = [measured.error for _, measured in kept]
    deviation = min(measured.deviation for _, measured in kept)
    is_wide = max(us) - min(us) >= constants.FLAT_OCTAVES
    return is_wide and max(errors) <= (1.0 + deviation) * min(errors)
