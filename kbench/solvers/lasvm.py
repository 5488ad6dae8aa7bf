"""Online support vector machine that visits each point and keeps only an expansion.

Bordes, Ertekin, Weston and Bottou, "Fast Kernel Classifiers with Online and Active Learning" (JMLR
6, 2005). Signed coefficients A_i <= a_i <= B_i, A = min(0, Cy), B = max(0, Cy); S are the points in
the expansion, f(x) = sum_{s in S} a_s k(x_s, x), and g_s = y_s - f(x_s) the gradient of the dual

    max_a  y'a - 1/2 a'Ka,   A <= a <= B,   (with intercept: sum a = 0)

    seed S with five points of each class
    for each point i, in random order, not in S
      PROCESS i: into S, unless it violates less than any pair in S could; a step with i
      REPROCESS: a step with the most violating pair of S; points with a_s = 0 that their
                 gradient holds there leave S
    finishing: the dual of S alone to a violation of at most tol

A step with the pair (i up, j down) is min((g_i - g_j) / (k_ii + k_jj - 2 k_ij), room of both).
Without intercept a step moves one coordinate by clip(g_i / k_ii), gradients are compared with 0, as
in the option -b 0 of the authors' program. They finish by REPROCESS steps on S; here
`solve_box_dual` goes on from the a at hand, to the same solution.

Kernel values come by chunks of points against S, and by rows of S that a bounded cache keeps. Slots
hold the points of S in order of arrival; those that leave are marked, and now and then closed up.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import njit

from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual import BoxDualResult, solve_box_dual
from kbench.trace import Trace

_CHUNK = 256
_SEEDS = 5
_FEWEST_ROWS = 16
_UNLIMITED = np.iinfo(np.int64).max
_SLOTS, _CLOCK, _STEPS, _KNOWN = range(4)  # of `State.counts`
_NONE = -1


class State(NamedTuple):
    """The expansion by slots, and the cached rows; numba reads and writes it in place."""

    counts: np.ndarray  # slots in use, clock of the cache, steps, slots known at chunk's start
    member: np.ndarray  # (capacity,) point of a slot, -1 when it has left
    alpha: np.ndarray  # (capacity,) signed
    g: np.ndarray  # (capacity,)
    lower: np.ndarray  # (capacity,) A
    upper: np.ndarray  # (capacity,) B
    diagonal: np.ndarray  # (capacity,)
    place: np.ndarray  # (capacity,) position in the chunk of a slot that came in it
    row_of: np.ndarray  # (capacity,) cached row of a slot, or -1
    rows: np.ndarray  # (n_rows, capacity)
    owner: np.ndarray  # (n_rows,) slot, or -1
    length: np.ndarray  # (n_rows,) slots that the row knows
    last_use: np.ndarray  # (n_rows,)


class Chunk(NamedTuple):
    """Points to visit and their kernel values."""

    points: np.ndarray  # (b,)
    y: np.ndarray  # (b,)
    C: np.ndarray  # (b,)
    diagonal: np.ndarray  # (b,)
    against: np.ndarray  # (b, slots at the start)
    among: np.ndarray  # (b, b)


def solve_online(
    kernel: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    rng: np.random.RandomState,
    *,
    intercept: bool = False,
    epochs: int = 1,
    tol: float = 1e-3,
    cache_mb: float = 200.0,
    max_iter: int = -1,
    max_time: float | None = None,
    trace: Trace | None = None,
) -> BoxDualResult:
    """Visit the points in random order, `epochs` times, and finish.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    y : (n,) array of -1 and +1
    C : (n,) array, >= 0
        Points with 0 are not visited.
    rng : RandomState
        Of the order.
    intercept : bool
    epochs : int
    tol : float
    cache_mb : float
        MiB for kernel rows of the expansion. 16 rows are kept in any case.
    max_iter : int
        Limit on steps; -1 is none.
    max_time : float, optional
        Limit in seconds, looked at between chunks.
    trace : Trace, optional
        Told n_support and n_visited after each chunk.

    Returns
    -------
    BoxDualResult
        Of the dual of S: alpha is 0 and gradient NaN at the points outside; n_iter and
        kernel_entries are those of the visits and of the finishing.

    Notes
    -----
    O(d) for each kernel value, of which there are |S| for every visit and up to |S| for every step;
    O(|S|) per step. Memory: `cache_mb`, 256 |S| values, O(n d).
    """
    steps = _UNLIMITED if max_iter < 0 else max_iter
    seconds = math.inf if max_time is None else max_time
    trace = Trace() if trace is None else trace
    learner = _Learner(kernel, y, C, intercept, tol, cache_mb, steps, seconds, trace)
    return learner.run(rng, epochs)


class _Learner:
    def __init__(
        self,
        kernel: KernelMatrix,
        y: np.ndarray,
        C: np.ndarray,
        intercept: bool,
        tol: float,
        cache_mb: float,
        max_iter: int,
        max_time: float,
        trace: Trace,
    ) -> None:
        self.kernel = kernel
        self.y = y
        self.C = C
        self.intercept = intercept
        self.tol = tol
        self.cache_mb = cache_mb
        self.max_iter = max_iter
        self.trace = trace
        self.deadline = time.perf_counter() - trace.paused_wall_s + max_time
        self.entries_before = kernel.n_entries
        self.diagonal = np.maximum(kernel.diagonal(), 1e-12)
        self.state = self.room(1)
        self.known = kernel.points(np.empty(0, np.intp))

    def run(self, rng: np.random.RandomState, epochs: int) -> BoxDualResult:
        usable = np.flatnonzero(self.C > 0)
        classes = [usable[self.y[usable] == sign] for sign in (-1, 1)]
        self.visit(
            np.concatenate([rng.permutation(rows)[:_SEEDS] for rows in classes]), seeding=True
        )
        n_visited = 0
        for points in _chunks(usable, epochs, rng):
            if self.seconds_left() <= 0.0 or self.state.counts[_STEPS] >= self.max_iter:
                break
            self.visit(points)
            n_visited += len(points)
            n_support = int((self.members() >= 0).sum())
            self.trace(n_support=n_support, n_visited=n_visited)
        return self.finish()

    def seconds_left(self) -> float:
        return self.deadline - time.perf_counter() + self.trace.paused_wall_s

    def members(self) -> np.ndarray:
        """Points by slot, -1 for those that have left."""
        return self.state.member[: self.state.counts[_SLOTS]]

    def visit(self, points: np.ndarray, *, seeding: bool = False) -> None:
        """PROCESS and REPROCESS for each of the points that is not in S."""
        chunk = self.chunk(points[~np.isin(points, self.members())])
        at, wanted = 0, _NONE
        while at < 3 * len(chunk.points):
            at, wanted = _visit(
                self.state, chunk, at, self.intercept, seeding, self.tol, self.max_iter
            )
            if wanted >= 0:
                self.supply(wanted)

    def chunk(self, points: np.ndarray) -> Chunk:
        """Kernel values of the points, and room for all of them in S."""
        self.make_room(len(points))
        # Slots that were left hold values of no meaning.
        self.known = self.kernel.points(self.members())
        return Chunk(
            points=points,
            y=self.y[points],
            C=self.C[points],
            diagonal=self.diagonal[points],
            against=self.kernel.block(points, self.known),
            among=self.kernel.block(points, self.kernel.points(points)),
        )

    def finish(self) -> BoxDualResult:
        """Solve the dual of S from the a at hand."""
        n, n_steps = len(self.y), int(self.state.counts[_STEPS])
        slots = np.flatnonzero(self.members() >= 0)
        points, coef = self.state.member[slots], self.state.alpha[slots]
        kernel = self.kernel.take(points)
        result = solve_box_dual(
            kernel,
            self.y[points],
            self.C[points],
            intercept=self.intercept,
            alpha0=np.abs(coef),
            tol=self.tol,
            cache_mb=self.cache_mb,
            max_iter=-1 if self.max_iter == _UNLIMITED else self.max_iter - n_steps,
            max_time=max(0.0, self.seconds_left()),
        )
        self.kernel.count(kernel.n_entries)
        alpha, gradient = np.zeros(n), np.full(n, np.nan)
        alpha[points], gradient[points] = result.alpha, result.gradient
        return replace(
            result,
            alpha=alpha,
            gradient=gradient,
            n_iter=n_steps + result.n_iter,
            kernel_entries=self.kernel.n_entries - self.entries_before,
        )

    def supply(self, slot: int) -> None:
        """Bring the row of a slot into the cache, complete up to the slots known."""
        state = self.state
        row = state.row_of[slot]
        if row < 0:
            row = _acquire(state, slot)
        rest = slice(state.length[row], state.counts[_KNOWN])
        point = state.member[slot : slot + 1]
        state.rows[row, rest] = self.kernel.block(point, self.known[rest])[0]
        state.length[row] = state.counts[_KNOWN]

    def make_room(self, extra: int) -> None:
        """Room for `extra` more slots; slots that were left are closed up when they are many."""
        members = self.members()
        alive = np.flatnonzero(members >= 0)
        if len(members) + extra > len(self.state.member) or 2 * len(alive) < len(members):
            self.state = self.moved(alive, 2 * len(alive) + extra)
        self.state.counts[_KNOWN] = self.state.counts[_SLOTS]

    def room(self, capacity: int) -> State:
        cache_values = int(self.cache_mb * 2**20) // self.kernel.dtype.itemsize
        n_rows = min(capacity, max(_FEWEST_ROWS, cache_values // capacity))
        return State(
            counts=np.zeros(4, np.int64),
            member=np.full(capacity, -1),
            alpha=np.zeros(capacity),
            g=np.zeros(capacity),
            lower=np.zeros(capacity),
            upper=np.zeros(capacity),
            diagonal=np.zeros(capacity),
            place=np.zeros(capacity, np.int64),
            row_of=np.full(capacity, -1),
            rows=np.empty((n_rows, capacity), self.kernel.dtype),
            owner=np.full(n_rows, -1),
            length=np.zeros(n_rows, np.int64),
            last_use=np.zeros(n_rows, np.int64),
        )

    def moved(self, slots: np.ndarray, capacity: int) -> State:
        """The state of some slots, in order, with the rows last used as far as there is room."""
        old, new = self.state, self.room(max(1, capacity))
        new.counts[:] = old.counts
        new.counts[_SLOTS] = len(slots)
        for name in ("member", "alpha", "g", "lower", "upper", "diagonal"):
            getattr(new, name)[: len(slots)] = getattr(old, name)[slots]
        cached = np.flatnonzero(old.row_of[slots] >= 0)
        rows = old.row_of[slots[cached]]
        recent = np.argsort(-old.last_use[rows], kind="stable")[: len(new.owner)]
        for row, (slot, before) in enumerate(zip(cached[recent], rows[recent], strict=True)):
            known = np.searchsorted(slots, old.length[before])
            new.rows[row, :known] = old.rows[before, slots[:known]]
            new.length[row] = known
            new.last_use[row] = old.last_use[before]
            new.owner[row] = slot
            new.row_of[slot] = row
        return new


def _chunks(points: np.ndarray, epochs: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    for _ in range(epochs):
        order = rng.permutation(points)
        for start in range(0, len(order), _CHUNK):
            yield order[start : start + _CHUNK]


@njit(cache=True)
def _visit(
    state: State,
    chunk: Chunk,
    at: int,
    intercept: bool,
    seeding: bool,
    tol: float,
    max_steps: int,
) -> tuple[int, int]:
    """Visit the chunk from stage `at` (three a point: test, step, REPROCESS).

    Returns the stage to go on with, and the slot whose row is wanted for it, or -1.
    """
    n_stages = 3 * len(chunk.points)
    while at < n_stages:
        if state.counts[_STEPS] >= max_steps and not seeding:
            return n_stages, _NONE
        b, stage = at // 3, at % 3
        if stage == 0:
            g = _gradient(state, chunk, b)
            if seeding or _is_wanted(state, chunk.y[b], g, intercept):
                _insert(state, chunk, b, g)
                at += 3 if seeding else 1
            else:
                at += 2
            continue
        if stage == 1:
            wanted = _step_with_newest(state, chunk, intercept)
        else:
            wanted = _reprocess(state, chunk, intercept, tol)
        if wanted >= 0:
            return at, wanted
        if stage == 2:
            _evict(state, intercept)
        at += 1
    return at, _NONE


@njit(cache=True, fastmath={"contract", "reassoc"})
def _gradient(state: State, chunk: Chunk, b: int) -> float:
    """y - f(x) of a point of the chunk."""
    g = chunk.y[b]
    known = state.counts[_KNOWN]
    for s in range(known):
        g -= state.alpha[s] * chunk.against[b, s]
    for s in range(known, state.counts[_SLOTS]):
        g -= state.alpha[s] * chunk.among[b, state.place[s]]
    return g


@njit(cache=True)
def _is_wanted(state: State, y: float, g: float, intercept: bool) -> bool:
    """Whether a point outside S with this gradient could make a step."""
    if not intercept:
        return y * g > 0.0
    low, _, high, _ = _extremes(state)
    return g > low if y > 0.0 else g < high


@njit(cache=True)
def _insert(state: State, chunk: Chunk, b: int, g: float) -> None:
    """Append a point of the chunk to the slots, and its row to the cache."""
    slot = state.counts[_SLOTS]
    state.counts[_SLOTS] = slot + 1
    state.member[slot] = chunk.points[b]
    state.alpha[slot] = 0.0
    state.g[slot] = g
    state.lower[slot] = min(0.0, chunk.C[b] * chunk.y[b])
    state.upper[slot] = max(0.0, chunk.C[b] * chunk.y[b])
    state.diagonal[slot] = chunk.diagonal[b]
    state.place[slot] = b
    state.row_of[slot] = -1
    _acquire(state, slot)
    _ready(state, chunk, slot)


@njit(cache=True)
def _acquire(state: State, slot: int) -> int:
    """Give the slot the cached row that has not been used for longest."""
    row = int(np.argmin(state.last_use))
    if state.owner[row] >= 0:
        state.row_of[state.owner[row]] = -1
    state.owner[row] = slot
    state.row_of[slot] = row
    state.length[row] = 0
    _touch(state, row)
    return row


@njit(cache=True)
def _touch(state: State, row: int) -> None:
    state.counts[_CLOCK] += 1
    state.last_use[row] = state.counts[_CLOCK]


@njit(cache=True)
def _ready(state: State, chunk: Chunk, slot: int) -> int:
    """Complete the cached row of a slot from the chunk; -1 where it must be supplied."""
    known = state.counts[_KNOWN]
    row = state.row_of[slot]
    arrived = slot >= known
    if row < 0 and arrived:
        row = _acquire(state, slot)
    if row < 0 or (state.length[row] < known and not arrived):
        return -1
    values = state.rows[row]
    if arrived:
        for s in range(state.length[row], known):
            values[s] = chunk.against[state.place[slot], s]
    for s in range(max(known, state.length[row]), state.counts[_SLOTS]):
        if arrived:
            values[s] = chunk.among[state.place[slot], state.place[s]]
        else:
            values[s] = chunk.against[state.place[s], slot]
    state.length[row] = state.counts[_SLOTS]
    _touch(state, row)
    return row


@njit(cache=True)
def _extremes(state: State) -> tuple[float, int, float, int]:
    """Smallest g among those that can fall and largest among those that can rise, with slots."""
    n = state.counts[_SLOTS]
    alpha, g = state.alpha[:n], state.g[:n]
    low, high = _bounds(alpha, g, state.lower[:n], state.upper[:n])
    falls, rises = -1, -1
    for s in range(n):
        if g[s] == low and alpha[s] > state.lower[s]:
            falls = s
            break
    for s in range(n):
        if g[s] == high and alpha[s] < state.upper[s]:
            rises = s
            break
    return low, falls, high, rises


@njit(cache=True, fastmath={"nnan", "nsz", "reassoc"})
def _bounds(
    alpha: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[float, float]:
    """The values of `_extremes`; a loop of its own, without places, so that it vectorises."""
    low, high = np.inf, -np.inf
    for s in range(len(g)):
        low = min(low, g[s] if alpha[s] > lower[s] else np.inf)
        high = max(high, g[s] if alpha[s] < upper[s] else -np.inf)
    return low, high


@njit(cache=True)
def _step_with_newest(state: State, chunk: Chunk, intercept: bool) -> int:
    """A step with the slot that came last; -1, or the slot whose row is wanted."""
    newest = state.counts[_SLOTS] - 1
    if not intercept:
        return _step(state, chunk, newest)
    _, falls, _, rises = _extremes(state)
    if state.upper[newest] > 0.0:
        rises = newest
    else:
        falls = newest
    if rises < 0 or falls < 0 or state.g[rises] <= state.g[falls]:
        return _NONE
    return _pair_step(state, chunk, rises, falls)


@njit(cache=True)
def _reprocess(state: State, chunk: Chunk, intercept: bool, tol: float) -> int:
    """A step where S violates most; -1, or the slot whose row is wanted."""
    low, falls, high, rises = _extremes(state)
    violation = high - low if intercept else max(high, -low)
    if not violation > tol or (intercept and (rises < 0 or falls < 0)):
        return _NONE
    if intercept:
        return _pair_step(state, chunk, rises, falls)
    return _step(state, chunk, rises if high >= -low else falls)


@njit(cache=True, fastmath={"contract", "nsz", "arcp"})
def _step(state: State, chunk: Chunk, slot: int) -> int:
    """Move one coordinate to its best value."""
    row = _ready(state, chunk, slot)
    if row < 0:
        return slot
    before = state.alpha[slot]
    best = before + state.g[slot] / state.diagonal[slot]
    state.alpha[slot] = min(max(best, state.lower[slot]), state.upper[slot])
    change = state.alpha[slot] - before
    values = state.rows[row]
    for s in range(state.counts[_SLOTS]):
        state.g[s] -= change * values[s]
    state.counts[_STEPS] += 1
    return _NONE


@njit(cache=True, fastmath={"contract", "nsz", "arcp"})
def _pair_step(state: State, chunk: Chunk, i: int, j: int) -> int:
    """Raise i and lower j by the same, as far as it helps."""
    row_i = _ready(state, chunk, i)
    if row_i < 0:
        return i
    row_j = _ready(state, chunk, j)
    if row_j < 0:
        return j
    up, down = state.rows[row_i], state.rows[row_j]
    curvature = max(state.diagonal[i] + state.diagonal[j] - 2.0 * up[j], 1e-12)
    best = (state.g[i] - state.g[j]) / curvature
    room_i, room_j = state.upper[i] - state.alpha[i], state.alpha[j] - state.lower[j]
    step = min(best, room_i, room_j)
    state.alpha[i] = state.upper[i] if step == room_i else state.alpha[i] + step
    state.alpha[j] = state.lower[j] if step == room_j else state.alpha[j] - step
    for s in range(state.counts[_SLOTS]):
        state.g[s] -= step * (up[s] - down[s])
    state.counts[_STEPS] += 1
    return _NONE


@njit(cache=True)
def _evict(state: State, intercept: bool) -> None:
    """Drop the points with a_s = 0 that no pair would move."""
    n = state.counts[_SLOTS]
    low, high = 0.0, 0.0
    if intercept:
        low, _, high, _ = _extremes(state)
    if not _some_idle(state.alpha[:n], state.g[:n], state.upper[:n], low, high):
        return
    for s in range(n):
        positive = state.upper[s] > 0.0
        if state.alpha[s] == 0.0 and (
            state.g[s] <= low if positive else high <= state.g[s] < np.inf
        ):
            state.member[s] = -1
            state.lower[s] = state.upper[s] = 0.0
            state.g[s] = np.inf
            row = state.row_of[s]
            if row >= 0:
                state.owner[row] = -1
                state.row_of[s] = -1
                state.last_use[row] = 0


@njit(cache=True, fastmath={"nnan", "nsz", "reassoc"})
def _some_idle(
    alpha: np.ndarray, g: np.ndarray, upper: np.ndarray, low: float, high: float
) -> bool:
    """Whether `_evict` has something to do; slots that were left have g = inf."""
    count = 0
    for s in range(len(g)):
        beyond = g[s] <= low if upper[s] > 0.0 else high <= g[s] < np.inf
        count += 1 if alpha[s] == 0.0 and beyond else 0
    return count > 0
