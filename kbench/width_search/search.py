"""Search for kernel width and C of a support vector machine on the training rows alone.

    rung 1: a coarse grid of (gamma, C) on a few hundred rows
    rung r: points that the surface of the errors so far proposes, on more rows
    answer: minimum of the surface at all rows (after cells: halfway to all rows), among the points
            near those tried

A rung is a list of pairs of training and validation rows. One kernel matrix for each gamma and
pair serves all C. Up to 1,500 rows the pairs are folds; up to 16,000 rows both halves of the data,
and up to 6,000 folds in the last rung, three of regressions and five of classes.

Beyond, cost forbids halves, and smaller samples mislead: the best gamma of covtype is 1 for
5,000 rows, 17 for 10,000 and 40 for 74,370. So the next rungs are cells: the 2,000 rows nearest to
a random row, of which 400 of the inner 800 are validation rows. A cell has nearly the density of
the data, and shows the optimum of a local machine. A sample of 5,600 rows follows and shows
what a local machine misses. Where nobody compares larger machines afterwards, because they take too
long, other cells come last, twice: they measure the neighbourhood of the optimum, and that of the
optimum as the first ones correct it.

Where the errors of cells do not depend on the parameters, samples take the place of cells.

Cells are added until about 600 errors have been seen, because the sampling error of an error rate
is a fraction 1 / sqrt(errors) of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from kbench.trace import Deadline, Trace
from kbench.width_search.gram import Gram, Rows
from kbench.width_search.surface import Surface
from kbench.width_search.tasks import Task

# Rows up to which all pairs are folds, up to which those of the last rung are, and up to which the
# pairs are the two halves. Three folds take 2.7 times the kernel values of halves, five 6.4 times.
_MOST_FOLDED, _MOST_FOLDED_LAST, FEW_ROWS = 1500, 6000, 16_000
_FOLDS = 5
# Training rows of the first rung, of a cell, and of the last sample.
_FIRST, _CELL, _SAMPLE = 900, 2000, 5600
# Fractions of a cell: its inner rows, and the validation rows among those.
_INNER, _VALIDATED = 0.4, 0.5
# Cells: at least and at most.
_LEAST_CELLS, _MOST_CELLS = 8, 24
# Validation rows of the first rung, of halves and of the sample, at most.
_FIRST_VALIDATION, _VALIDATION = 4000, 8000
# Relative sampling error of the lowest error at which validation ends: that of 600 errors.
_PRECISE = 600**-0.5
# Limit on steps of a machine of the first rung for each training row.
_FIRST_STEPS = 10
# Points of each later rung, of those of cells, and of the last sample: after each rung the surface
# is fitted again.
_COUNTS, _CELL_COUNTS, _SAMPLE_COUNT = (5, 4, 4), (5, 4), 5
# Points of samples that take the place of cells, and the octaves of gamma over which errors of
# cells must be alike for that. Neighbours of the optimum are alike everywhere.
_SAMPLE_COUNTS, _WIDE = (5, 4), 12.0
# Points of the last cells, in octaves of gamma and C from the minimum so far: its neighbours, and
# one in the direction in which errors change least.
_CROSS = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (-1, 1)])
# Rungs of last cells: one moves a minimum that lies an octave off only towards the optimum. After
# one and two of them, exact machines of the choices have 90.51 +- .10 and 90.54 +- .07 per cent of
# held-out training rows in 5.7 and 6.8 CPU seconds (`bench_tuned.py --held-out covtype_93k`, first
# twelve seeds).
_LAST_CELLS = 2
# Grid of the first rung, and of all that may be proposed, in octaves of gamma and C.
_FIRST_GRID = (np.arange(-5.0, 8.0, 2.0), np.arange(-3.0, 10.0, 2.0))
_GRID = (np.arange(-6.0, 9.0), np.arange(-4.0, 11.0))
# Spacing of the points among which the answer is chosen, and their largest distance from a point
# that was tried beyond the first rung, of the last cells: in a corner the surface extrapolates.
_SPACING, _TRUST, _TRUST_OF_LAST_CELLS = 0.25, 0.75, 0.5
# Fraction of the sampling error of the log error that an octave of gamma or C may cost: of
# machines whose errors do not differ significantly, the smoother one is chosen.
_SMOOTHER = 0.05
# Cost in log error of an octave of C above 2^5, where solvers take more steps with every octave.
_DEAR_C, _DEAR = 5.0, 0.012
# The surface after cells is minimised at this t: halfway to all rows, because the logarithm of the
# error flattens. Half of what sets cells apart from samples counts, because a machine of all rows
# has the cells' density but sees more than a neighbourhood. Without it, gamma is 11 or 13 in two of
# eight seeds on covtype's training rows and 36 to 72 in the others; 11 costs 1.4 points.
_GOAL_OF_CELLS = -0.5, 0.5
# After the last cells half of that is left: they measure the neighbours of the minimum themselves.
_GOAL_OF_LAST_CELLS = -0.75, 0.75
# A log error has the deviation of a binomial count, less what is common to machines of the same
# rows.
_COMMON = 0.35


class Point(NamedTuple):
    """Kernel width and C as logarithms to base 2, the width in units of the median distance."""

    u: float
    v: float


@dataclass
class Rung:
    """Machines of some pairs of training and validation rows."""

    kind: str
    t: float  # log2 (training rows / all rows)
    pairs: list[tuple[np.ndarray, np.ndarray]]
    count: int  # points to try; 0 is the coarse grid, or the neighbours of the minimum
    steps: int  # limit on steps for each training row
    precise: float = 0.0  # further pairs are left out at this relative error of the best point
    least_pairs: int = 1

    @property
    def is_local(self) -> bool:
        return self.kind == "cell"


@dataclass
class Search:
    """Results of the search.

    Attributes
    ----------
    columns : dict of str to list
        An entry for each point of each rung: rung, rows, n_rows, gamma, C, error, n_validation,
        solved.
    gamma, C : float
    error : float
        Held-out error of the last rung at the point nearest to the answer.
    n_validation : int
        Rows that it was measured on.
    relative_deviation : float
        Sampling error of `error` as a fraction of it.
    support_fraction : float
        Fraction of training rows that were support vectors there.
    flat_cells : bool
        Whether the errors of cells did not depend on the parameters.
    solved : bool
        Whether the machine there reached its tolerance within the limit on steps.
    is_dear : bool
        Whether other cells came last in place of the caller's comparison of larger machines.
    """

    columns: dict[str, list] = field(default_factory=dict)
    gamma: float = 1.0
    C: float = 1.0
    error: float = np.nan
    n_validation: int = 0
    relative_deviation: float = 1.0
    support_fraction: float = 1.0
    flat_cells: bool = False
    solved: bool = True
    is_dear: bool = False


class FirstRung:
    """The coarse grid, measured on a few hundred rows: also a quick look at how good the rows are.

    Attributes
    ----------
    error : float
        Lowest error of the grid.
    """

    points = tuple(Point(u, v) for u in _FIRST_GRID[0] for v in _FIRST_GRID[1])

    def __init__(self, rows: Rows, task: Task, order: np.ndarray) -> None:
        self.order, self.rung = order, _first(order)
        self.outcome = _run(rows, task, self.rung, self.points)
        self.error = min(measured.error for measured in self.outcome)


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

    Parameters
    ----------
    rows : Rows
    task : Task
        Targets, and the error to be minimised.
    rng : numpy Generator
    deadline : Deadline
        When it has passed, rungs that are not begun are left out; the first one is not.
    trace : Trace
        Receives the validation error of every point.
    first : FirstRung, optional
        The first rung of these rows, if it has been measured.
    compared_entries : float, default=inf
        Kernel values of the exact fit, n^2 times the fraction of support vectors, up to which the
        caller compares larger machines. Beyond, the search ends with other cells.
    """
    if first is None:
        first = FirstRung(rows, task, task.order(rng))
    plan = _plan(rows, first, rng, task)
    names = ("rung", "rows", "n_rows", "gamma", "C", "error", "n_validation", "solved")
    result = Search({name: [] for name in names})
    candidates = _product(*_GRID)
    points: Sequence[Point] = first.points
    has_cells = any(rung.is_local for rung in plan)
    goal, trust = _GOAL_OF_CELLS if has_cells else (0.0, 0.0), _TRUST
    least = 1  # first rung whose points' neighbours may be the answer
    seen = np.empty((0, 4))
    log_errors = deviations = np.empty(0)
    rungs = np.empty(0, int)
    surface = None
    used = refined = np.empty(0, bool)
    pairs: dict[int, list] = {}  # of the rungs measured
    measurements: list[_Measured] = []
    number = -1
    while plan:
        rung, number = plan.pop(0), number + 1
        if surface is not None:
            if deadline.passed:
                break
            if rung.count == 0:
                chosen = _minimum(surface, seen, deviations, refined, goal, trust) + _CROSS
                if goal != _GOAL_OF_LAST_CELLS:
                    goal, trust, least = _GOAL_OF_LAST_CELLS, _TRUST_OF_LAST_CELLS, number
            else:
                place = rung.t, float(rung.is_local)
                tried = seen[[pairs[earlier] is rung.pairs for earlier in rungs], :2]
                known = (candidates[:, None] == tried).all(axis=2).any(axis=1)
                chosen = surface.propose(candidates, place, goal, rung.count, known)
            points = [Point(*point) for point in chosen]
            if not points:
                continue
        if number == 0:
            outcome = first.outcome
            task.adapt(first.error)
        else:
            outcome = _run(rows, task, rung, points)
        for point, measured in zip(points, outcome, strict=True):
            gamma, C = rows.unit * 2.0**point.u, task.scale_of_c * 2.0**point.v
            n_rows = len(rung.pairs[0][0])
            trace(validation_error=measured.error, gamma=gamma, C=C, n_rows=n_rows)
            values = (
                number,
                rung.kind,
                len(rung.pairs[0][0]),
                gamma,
                C,
                measured.error,
                measured.n_rows,
                measured.solved,
            )
            for name, value in zip(names, values, strict=True):
                result.columns[name].append(value)
        measurements += outcome
        pairs[number] = rung.pairs
        new = [(*point, rung.t, float(rung.is_local)) for point in points]
        seen = np.vstack([seen, new])
        errors = np.array([measured.error for measured in outcome])
        sampling = np.array([measured.deviation for measured in outcome])
        sampling += task.unsolved_deviation * ~np.array([measured.solved for measured in outcome])
        log_errors = np.append(
            log_errors, np.log(np.minimum(errors, task.worst) + 0.5 / outcome[0].n_rows)
        )
        deviations = np.append(deviations, _COMMON * sampling)
        rungs = np.append(rungs, np.full(len(points), number))
        if rung.is_local and plan and _is_flat(points, outcome):
            # Only samples tell one machine from another here.
            result.flat_cells, goal = True, (0.0, 0.0)
            plan = [
                replace(other, count=count)
                for other in plan
                for count in _SAMPLE_COUNTS
                if not other.is_local
            ]
        best = min(outcome, key=lambda measured: measured.error)
        is_dear = len(rows) ** 2 * best.support_fraction > compared_entries
        if has_cells and not (plan or result.flat_cells or rung.is_local) and is_dear:
            plan += [_cells(rows, rng, 0, 0.0, task.steps) for _ in range(_LAST_CELLS)]
            result.is_dear = True
        used = (seen[:, 3] == 0.0) | (not result.flat_cells)
        surface = Surface(seen[used], log_errors[used], rungs[used], deviations[used])
        # Points among whose neighbours the answer is.
        refined = used & (rungs >= min(number, least))
        if not refined.any():
            # Only cells that tell nothing have followed the coarse grid.
            refined = used
    assert surface is not None
    # Points that were measured on the rows of the last rung that tells something.
    last = np.array([pairs[earlier] is pairs[rungs[used][-1]] for earlier in rungs])
    u, v = _minimum(surface, seen, deviations, refined, goal, trust)
    result.gamma, result.C = float(rows.unit * 2.0**u), float(task.scale_of_c * 2.0**v)
    distance = np.abs(seen[last, :2] - (u, v)).sum(axis=1)
    nearest = int(np.flatnonzero(last)[distance.argmin()])
    result.error = float(result.columns["error"][nearest])
    result.n_validation = int(result.columns["n_validation"][nearest])
    measured = measurements[nearest]
    result.relative_deviation = measured.deviation
    result.support_fraction, result.solved = measured.support_fraction, measured.solved
    return result


def _product(us: np.ndarray, vs: np.ndarray) -> np.ndarray:
    return np.array([(u, v) for u in us for v in vs])


def _minimum(
    surface: Surface,
    seen: np.ndarray,
    deviations: np.ndarray,
    refined: np.ndarray,
    goal: tuple[float, float],
    trust: float = _TRUST,
) -> np.ndarray:
    """Minimum of the surface at the goal near the refined ones of the points seen; (2,) u and v."""
    near = _near(seen[refined, :2], trust)
    mean = surface.mean(np.column_stack([near, np.tile(goal, (len(near), 1))]))
    octave = _SMOOTHER * np.median(deviations[refined]) / _COMMON
    mean += octave * near.sum(axis=1) + _DEAR * np.maximum(near[:, 1] - _DEAR_C, 0.0)
    return near[mean.argmin()]


def _near(tried: np.ndarray, trust: float) -> np.ndarray:
    """Points of a fine grid within `trust` octaves of a point tried; (q, 2)."""
    low, high = tried.min(axis=0) - trust, tried.max(axis=0) + trust
    fine = _product(*(np.arange(low[i], high[i] + 1e-9, _SPACING) for i in (0, 1)))
    gaps = np.abs(fine[:, None] - tried).max(axis=2).min(axis=1)
    return fine[gaps <= trust]


def _plan(rows: Rows, first: FirstRung, rng: np.random.Generator, task: Task) -> list[Rung]:
    n, order = len(rows), first.order
    if n <= _MOST_FOLDED:
        later = [replace(first.rung, count=count, steps=task.steps) for count in _COUNTS]
        return [first.rung, *later]
    plan = [first.rung]
    if n <= FEW_ROWS:
        # Beyond 13,600 rows the second rung has a quarter of them: its machines are the dearest.
        half = min(n // 2, task.most_rows)
        halves = _samples(order, half, 2, _VALIDATION, _COUNTS[1], task.steps)
        is_small = n <= 1.7 * 4 * _CELL
        quarters = halves if is_small else _samples(order, n // 4, 2, _VALIDATION, 0, task.steps)
        plan += [replace(quarters, count=_COUNTS[0]), halves]
        if n <= _MOST_FOLDED_LAST:
            count, k = task.last_rungs
            plan[-1] = replace(halves, count=count)
            folds = list(_folds(order, k))
            t = float(np.log2(len(folds[0][0]) / n))
            plan.append(Rung("fold", t, folds, _COUNTS[2], task.steps))
        else:
            plan.append(replace(halves, count=_COUNTS[2]))
        return plan
    cells = _cells(rows, rng, _CELL_COUNTS[0], _PRECISE, task.steps)
    plan += [cells, *(replace(cells, count=count) for count in _CELL_COUNTS[1:])]
    sample = min(_SAMPLE, task.most_rows)
    plan.append(_samples(order, sample, 1, _VALIDATION, _SAMPLE_COUNT, task.steps))
    return plan


def _first(order: np.ndarray) -> Rung:
    """The rung of the coarse grid."""
    n = len(order)
    if n > _MOST_FOLDED:
        return _samples(order, min(_FIRST, n // 3), 2, _FIRST_VALIDATION, 0, _FIRST_STEPS)
    folds = list(_folds(order, min(_FOLDS, n)))
    return Rung("fold", float(np.log2(len(folds[0][0]) / n)), folds, 0, _FIRST_STEPS)


def _folds(order: np.ndarray, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    # Ranges of the order, not every k-th row: in the order, classes of equal size take turns.
    for held_out in np.array_split(np.arange(len(order)), k):
        yield np.delete(order, held_out), order[held_out]


def _samples(
    order: np.ndarray, size: int, repetitions: int, n_validation: int, count: int, steps: int
) -> Rung:
    """Disjoint samples of `size` rows, each validated on the rows that follow it cyclically."""
    pairs = []
    for i in range(repetitions):
        others = np.concatenate([order[(i + 1) * size :], order[: i * size]])
        pairs.append((order[i * size : (i + 1) * size], others[:n_validation]))
    t = float(np.log2(size / len(order)))
    return Rung("sample", t, pairs, count, steps)


def _cells(rows: Rows, rng: np.random.Generator, count: int, precise: float, steps: int) -> Rung:
    """Cells around random rows."""
    centres = rng.integers(len(rows), size=_MOST_CELLS)
    pairs = [_cell(rows, int(centre), rng) for centre in centres]
    return Rung("cell", -1.0, pairs, count, steps, precise, _LEAST_CELLS)


def _cell(rows: Rows, centre: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation rows of the cell around a row."""
    nearest = rows.nearest(centre, _CELL)
    n_inner = int(_INNER * _CELL)
    inner = rng.permutation(nearest[:n_inner])
    n_validation = int(_VALIDATED * n_inner)
    return np.concatenate([inner[n_validation:], nearest[n_inner:]]), inner[:n_validation]


class _Measured(NamedTuple):
    """Held-out error of a point over all pairs of a rung."""

    error: float
    n_rows: int
    deviation: float  # of the logarithm of the error
    solved: bool
    support_fraction: float


def _run(rows: Rows, task: Task, rung: Rung, points: Sequence[Point]) -> list[_Measured]:
    """Measure every point of a rung."""
    losses = np.zeros((len(points), 3))  # sums of loss, squared loss and weight
    n_rows, solved = 0, np.ones(len(points), bool)
    support = np.zeros(len(points))
    us = sorted({point.u for point in points})
    for number, (training, validation) in enumerate(rung.pairs):
        if number >= rung.least_pairs and _relative(losses[losses[:, 0].argmin()]) <= rung.precise:
            break
        training = task.arranged(training)
        n_rows += len(validation)
        constant = task.constant_losses(training, validation)
        if constant is not None:
            losses += constant
            continue
        gram: Gram = rows.gram(training, validation)
        for u in us:
            places = sorted((p.v, i) for i, p in enumerate(points) if p.u == u)
            which = [i for _, i in places]
            gamma, Cs = rows.unit * 2.0**u, [2.0**v for v, _ in places]
            result = task.losses(gram, gamma, Cs, training, validation, rung.steps * len(training))
            losses[which] += result.losses
            solved[which] &= result.solved
            support[which] = result.support_fraction
    return [
        _Measured(float(sums[0] / sums[2]), n_rows, _relative(sums), bool(ended), float(fraction))
        for sums, ended, fraction in zip(losses, solved, support, strict=True)
    ]


def _is_flat(points: Sequence[Point], outcome: list[_Measured]) -> bool:
    """Whether points of very different widths have errors within the sampling error of one."""
    us = [point.u for point in points]
    errors = [measured.error for measured in outcome]
    deviation = min(measured.deviation for measured in outcome)
    return max(us) - min(us) >= _WIDE and max(errors) <= (1.0 + deviation) * min(errors)


def _relative(sums: np.ndarray) -> float:
    """Sampling error of a sum of losses as a fraction of it; sums : loss, squared loss, weight."""
    return float(min(np.sqrt(sums[1]) / sums[0], 1.0)) if sums[0] > 0.0 else 1.0
