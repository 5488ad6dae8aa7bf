"""LaSVM: an online support vector machine that visits each point and keeps an expansion.

Bordes, Ertekin, Weston and Bottou, "Fast Kernel Classifiers with Online and Active Learning" (JMLR
6, 2005), section 3.2. Signed coefficients A_i <= a_i <= B_i with A = min(0, Cy), B = max(0, Cy); S
is the set of points in the expansion f(x) = sum_{s in S} a_s k(x_s, x), and g_s = y_s - f(x_s) the
gradient of the dual

    max_a  y'a - 1/2 a'Ka,   A <= a <= B,   (with intercept: sum a = 0)

    seed S with five points of each class
    for each point i, in random order, not in S
      PROCESS i: add i to S if it forms a violating pair with a point of S; a step with i
      REPROCESS: a step with the most violating pair of S; remove the points with a_s = 0 that
                 form no violating pair
    finishing: solve the dual of S to a violation of at most tol

A stream has the same visits, of each chunk's points in their order, and no finishing; its seeds are
the first points of each class.

A step with the pair (i up, j down) is the minimum of (g_i - g_j) / (k_ii + k_jj - 2 k_ij),
B_i - a_i and a_j - A_j. Without intercept a step moves one coordinate by clip(g_i / k_ii), and
gradients are compared with 0, as with the option -b 0 of the authors' program. The authors finish
by REPROCESS steps on S; here `solve_box_dual` continues from the current a, to the same solution.

Kernel values are computed for chunks of points against S, and in rows of S that a bounded cache
keeps. Slots hold the points of S in the order of their arrival. The slots of removed points are
marked, and compacted when they are more than half of all slots.

The cache is not `kbench.solvers.row_cache.RowCache`, which serves blocks of rows to Python code for
a fixed set of columns. Here a step reads one or two rows inside compiled code, a row is extended
with values of the chunk that are already computed, and the columns change with every point that
enters or leaves S.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import njit

from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual import BoxDualResult, solve_box_dual
from kbench.trace import Deadline, Trace

# Points whose kernel values with S are computed together, by matrix products: more are faster per
# value, but values at points that leave S meanwhile are wasted. Set by hand.
_CHUNK = 256
# Points of each class that S starts with (the authors' program).
_SEEDS = 5
# Least number of cached rows, whatever `cache_mb` is.
_FEWEST_ROWS = 16
_UNLIMITED = np.iinfo(np.int64).max
_SLOTS, _CLOCK, _STEPS, _KNOWN = range(4)  # entries of `State.counts`
_NONE = -1


class State(NamedTuple):
    """The expansion by slots, and the cached rows; compiled code changes it in place."""

    counts: np.ndarray  # slots in use, clock of the cache, steps, slots at the start of the chunk
    member: np.ndarray  # (capacity,) point of a slot, -1 if it was removed
    alpha: np.ndarray  # (capacity,) signed
    g: np.ndarray  # (capacity,)
    lower: np.ndarray  # (capacity,) A
    upper: np.ndarray  # (capacity,) B
    diagonal: np.ndarray  # (capacity,)
    place: np.ndarray  # (capacity,) position in the current chunk of a slot that it added
    row_of: np.ndarray  # (capacity,) cached row of a slot, or -1
    rows: np.ndarray  # (n_rows, capacity)
    owner: np.ndarray  # (n_rows,) slot, or -1
    length: np.ndarray  # (n_rows,) number of slots for which the row has values
    last_use: np.ndarray  # (n_rows,)


class Chunk(NamedTuple):
    """Points to visit and their kernel values with S and with each other."""

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
        Draws the order.
    intercept : bool
    epochs : int
    tol : float
    cache_mb : float
        MiB of kernel rows of the expansion; at least 16 rows are kept.
    max_iter : int
        Limit on the number of steps; -1 is no limit.
    max_time : float, optional
        Limit in seconds, checked between chunks.
    trace : Trace, optional
        Receives n_support and n_visited after each chunk.

    Returns
    -------
    BoxDualResult
        Solution of the dual of S: at the other points alpha is 0 and gradient NaN. n_iter and
        kernel_entries include the visits and the finishing.

    Notes
    -----
    Each visit computes |S| kernel values of O(d) operations, each step up to |S|; a step itself is
    O(|S|). Memory: `cache_mb`, 256 |S| kernel values, O(n d).
    """
    steps = _UNLIMITED if max_iter < 0 else max_iter
    trace = Trace() if trace is None else trace
    deadline = Deadline(max_time, trace)
    learner = _Learner(kernel, y, C, intercept, tol, cache_mb, steps, deadline, trace)
    return learner.run(rng, epochs)


def visit_chunk(
    kernel: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    points: np.ndarray,
    alpha: np.ndarray,
    gradient: np.ndarray,
    *,
    intercept: bool = False,
    tol: float = 1e-3,
    cache_mb: float = 200.0,
) -> BoxDualResult:
    """Visit some points in their order, starting from an expansion, without finishing.

    Parameters
    ----------
    kernel, y, C, intercept, tol, cache_mb
        As in `solve_online`.
    points : (b,) ints
        Points to visit, which are not in S.
    alpha : (n,) array, >= 0
        Start.
    gradient : (n,) array
        As `BoxDualResult` has it; NaN at the points that are not in S.

    Returns
    -------
    BoxDualResult
        As `solve_online`; the violation and the duality gap are those of the dual of S.
    """
    deadline = Deadline(None, Trace())
    learner = _Learner(kernel, y, C, intercept, tol, cache_mb, _UNLIMITED, deadline, Trace())
    learner.enter(alpha, gradient)
    points = points[C[points] > 0]
    held = y[np.isfinite(gradient)]
    seeds = [points[y[points] == sign][:_SEEDS] for sign in (-1, 1) if sign not in held]
    if seeds:
        learner.visit(np.concatenate(seeds), seeding=True)
    for start in range(0, len(points), _CHUNK):
        learner.visit(points[start : start + _CHUNK])
    return learner.unfinished()


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
        deadline: Deadline,
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
        self.deadline = deadline
        self.entries_before = kernel.n_entries
        self.diagonal = np.maximum(kernel.diagonal(), 1e-12)
        self.state = self.empty_state(1)
        self.known = kernel.points(np.empty(0, np.intp))

    def run(self, rng: np.random.RandomState, epochs: int) -> BoxDualResult:
        usable = np.flatnonzero(self.C > 0)
        classes = [usable[self.y[usable] == sign] for sign in (-1, 1)]
        self.visit(
            np.concatenate([rng.permutation(rows)[:_SEEDS] for rows in classes]), seeding=True
        )
        n_visited = 0
        for points in _chunks(usable, epochs, rng):
            if self.deadline.passed or self.state.counts[_STEPS] >= self.max_iter:
                break
            self.visit(points)
            n_visited += len(points)
            n_support = int((self.members() >= 0).sum())
            self.trace(n_support=n_support, n_visited=n_visited)
        return self.finish()

    def enter(self, alpha: np.ndarray, gradient: np.ndarray) -> None:
        """Start from alpha : (n,); S has the points with a finite gradient : (n,)."""
        points = np.flatnonzero(np.isfinite(gradient))
        n, signs = len(points), self.y[points]
        self.state = self.empty_state(max(1, n))
        self.state.counts[_SLOTS] = n
        self.state.member[:n] = points
        self.state.alpha[:n] = signs * alpha[points]
        self.state.g[:n] = -signs * gradient[points]
        self.state.lower[:n] = np.minimum(0.0, signs * self.C[points])
        self.state.upper[:n] = np.maximum(0.0, signs * self.C[points])
        self.state.diagonal[:n] = self.diagonal[points]

    def members(self) -> np.ndarray:
        """Points by slot, -1 for removed ones."""
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
        """Kernel values of the points; reserves a slot for each of them."""
        self.reserve(len(points))
        # The values at the slots of removed points are not used.
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
        """Solve the dual of S, starting from the current a."""
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
            max_time=self.deadline.seconds_left(),
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

    def unfinished(self) -> BoxDualResult:
        """The dual of S at the current a."""
        slots = np.flatnonzero(self.members() >= 0)
        points, coef, g = (a[slots] for a in (self.state.member, self.state.alpha, self.state.g))
        y, C = self.y[points], self.C[points]
        low, _, high, _ = _extremes(self.state)
        if self.intercept:
            # One of them is infinite where S has a single class.
            ends = [end for end in (low, high) if np.isfinite(end)]
            b, violation = float(np.mean(ends)) if ends else 0.0, high - low
        else:
            b, violation = 0.0, max(high, -low)
        violation = max(0.0, violation)
        margin = y * (b - g)
        n = len(self.y)
        alpha, gradient = np.zeros(n), np.full(n, np.nan)
        alpha[points], gradient[points] = np.abs(coef), -y * g
        converged = violation <= self.tol
        return BoxDualResult(
            alpha=alpha,
            gradient=gradient,
            gradient_error=0.0,
            intercept=b,
            objective=float(-0.5 * coef @ (y + g)),
            violation=violation,
            duality_gap=float(
                np.sum(np.where(margin > 0.0, np.abs(coef), np.abs(coef) - C) * margin)
            ),
            n_iter=int(self.state.counts[_STEPS]),
            kernel_entries=self.kernel.n_entries - self.entries_before,
            converged=converged,
            stop_reason="tol" if converged else "max_iter",
            n_groups=1,
        )

    def supply(self, slot: int) -> None:
        """Complete the cached row of a slot for the slots at the start of the chunk."""
        state = self.state
        row = state.row_of[slot]
        if row < 0:
            row = _acquire(state, slot)
        rest = slice(state.length[row], state.counts[_KNOWN])
        point = state.member[slot : slot + 1]
        state.rows[row, rest] = self.kernel.block(point, self.known[rest])[0]
        state.length[row] = state.counts[_KNOWN]

    def reserve(self, extra: int) -> None:
        """Provide `extra` free slots; compact the slots if more than half are of removed points."""
        members = self.members()
        alive = np.flatnonzero(members >= 0)
        if len(members) + extra > len(self.state.member) or 2 * len(alive) < len(members):
            self.state = self.moved(alive, 2 * len(alive) + extra)
        self.state.counts[_KNOWN] = self.state.counts[_SLOTS]

    def empty_state(self, capacity: int) -> State:
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
        """The state of some slots, in order, with the last used rows that fit the cache."""
        old, new = self.state, self.empty_state(max(1, capacity))
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
    """Visit the chunk from stage `at` on; a point has three stages: test, step, REPROCESS.

    Returns the stage to continue with, and the slot whose row must be supplied for it, or -1.
    """
    n_stages = 3 * len(chunk.points)
    while at < n_stages:
        if state.counts[_STEPS] >= max_steps and not seeding:
            return n_stages, _NONE
        b, stage = at // 3, at % 3
        if stage == 0:
            g = _gradient(state, chunk, b)
            if seeding or _violates(state, chunk.y[b], g, intercept):
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
def _violates(state: State, y: float, g: float, intercept: bool) -> bool:
    """Whether a point outside S with this gradient forms a violating pair."""
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
    """Assign the least recently used cached row to the slot."""
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
    """Complete the cached row of a slot from the chunk; its index, or -1 if it must be supplied."""
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
    """Smallest g of a coefficient above its lower bound, largest below its upper bound; slots."""
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
    """The values of `_extremes`, in a separate loop without indices, so that it vectorises."""
    low, high = np.inf, -np.inf
    for s in range(len(g)):
        low = min(low, g[s] if alpha[s] > lower[s] else np.inf)
        high = max(high, g[s] if alpha[s] < upper[s] else -np.inf)
    return low, high


@njit(cache=True)
def _step_with_newest(state: State, chunk: Chunk, intercept: bool) -> int:
    """A step with the newest slot; -1, or the slot whose row must be supplied."""
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
    """A step with the most violating pair; -1, or the slot whose row must be supplied."""
    low, falls, high, rises = _extremes(state)
    violation = high - low if intercept else max(high, -low)
    if not violation > tol or (intercept and (rises < 0 or falls < 0)):
        return _NONE
    if intercept:
        return _pair_step(state, chunk, rises, falls)
    return _step(state, chunk, rises if high >= -low else falls)


@njit(cache=True, fastmath={"contract", "nsz", "arcp"})
def _step(state: State, chunk: Chunk, slot: int) -> int:
    """Move one coordinate to its optimum."""
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
    """Increase a_i and decrease a_j by the same optimal amount within the bounds."""
    row_i = _ready(state, chunk, i)
    if row_i < 0:
        return i
    row_j = _ready(state, chunk, j)
    if row_j < 0:
        return j
    up, down = state.rows[row_i], state.rows[row_j]
    curvature = max(state.diagonal[i] + state.diagonal[j] - 2.0 * up[j], 1e-12)
    best = (state.g[i] - state.g[j]) / curvature
    most_i, most_j = state.upper[i] - state.alpha[i], state.alpha[j] - state.lower[j]
    step = min(best, most_i, most_j)
    state.alpha[i] = state.upper[i] if step == most_i else state.alpha[i] + step
    state.alpha[j] = state.lower[j] if step == most_j else state.alpha[j] - step
    for s in range(state.counts[_SLOTS]):
        state.g[s] -= step * (up[s] - down[s])
    state.counts[_STEPS] += 1
    return _NONE


@njit(cache=True)
def _evict(state: State, intercept: bool) -> None:
    """Remove the points with a_s = 0 that form no violating pair."""
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
    """Whether `_evict` would remove a point; slots of removed points have g = inf."""
    count = 0
    for s in range(len(g)):
        beyond = g[s] <= low if upper[s] > 0.0 else high <= g[s] < np.inf
        count += 1 if alpha[s] == 0.0 and beyond else 0
    return count > 0
