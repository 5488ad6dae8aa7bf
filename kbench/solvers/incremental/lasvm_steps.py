"""The steps of LaSVM, PROCESS and REPROCESS, compiled; a slot holds one point of the expansion.

Bordes, Ertekin, Weston and Bottou (JMLR 6, 2005), section 3.2; `kbench.solvers.incremental.lasvm`
has the algorithm and its notation.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

SLOTS, CLOCK, STEPS, KNOWN = range(4)  # entries of `State.counts`
NONE = -1


# `State` and `Chunk` are in the signatures of compiled functions in numba's cache on disk, which
# could not be read after a change of the names.
class State(NamedTuple):
    """The expansion by slots, and the cached rows; compiled code changes it in place."""

    counts: np.ndarray  # slots in use, clock of the cache, steps, slots at the start of the chunk
    member: np.ndarray  # (capacity,) point of a slot, -1 if it was removed
    alpha: np.ndarray  # (capacity,) signed
    g: np.ndarray  # (capacity,) gradient y - f(x)
    lower: np.ndarray  # (capacity,) A
    upper: np.ndarray  # (capacity,) B
    diagonal: np.ndarray  # (capacity,)
    place: np.ndarray  # (capacity,) position in the current chunk of a slot that it added
    row_of: np.ndarray  # (capacity,) cached row of a slot, or -1
    rows: np.ndarray  # (n_rows, capacity) cached kernel values, by slots
    owner: np.ndarray  # (n_rows,) slot whose row is cached here, or -1
    length: np.ndarray  # (n_rows,) number of slots for which the row has values
    last_use: np.ndarray  # (n_rows,) clock at the last use of the row, 0 if it is free


class Chunk(NamedTuple):
    """Points to visit and their kernel values with S and with each other."""

    points: np.ndarray  # (b,)
    y: np.ndarray  # (b,)
    C: np.ndarray  # (b,)
    diagonal: np.ndarray  # (b,)
    against: np.ndarray  # (b, slots at the start) kernel values with S
    among: np.ndarray  # (b, b) kernel values with each other


@njit(cache=True)
def visit(
    state: State, chunk: Chunk, at: int, intercept: bool, seeding: bool, tol: float, max_steps: int
) -> tuple[int, int]:
    """Visit the chunk from stage `at` on; a point has three stages: test, step, REPROCESS.

    Returns the next stage, and the slot whose row the caller must supply before it, or -1.
    """
    n_stages = 3 * len(chunk.points)
    while at < n_stages:
        if state.counts[STEPS] >= max_steps and not seeding:
            return n_stages, NONE
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
            missing_slot = _step_with_newest(state, chunk, intercept)
        else:
            missing_slot = _reprocess(state, chunk, intercept, tol)
        if missing_slot >= 0:
            return at, missing_slot
        if stage == 2:
            _remove_idle(state, intercept)
        at += 1
    return at, NONE


@njit(cache=True, fastmath={"contract", "reassoc"})
def _gradient(state: State, chunk: Chunk, b: int) -> float:
    """Return y - f(x) of point b of the chunk."""
    g = chunk.y[b]
    known = state.counts[KNOWN]
    for s in range(known):
        g -= state.alpha[s] * chunk.against[b, s]
    for s in range(known, state.counts[SLOTS]):
        g -= state.alpha[s] * chunk.among[b, state.place[s]]
    return g


@njit(cache=True)
def _violates(state: State, y: float, g: float, intercept: bool) -> bool:
    """Whether a point outside S with the label y and the gradient g forms a violating pair."""
    if not intercept:
        return y * g > 0.0
    low, _, high, _ = extremes(state)
    return g > low if y > 0.0 else g < high


@njit(cache=True)
def _insert(state: State, chunk: Chunk, b: int, g: float) -> None:
    """Append a point of the chunk to the slots, and its row to the cache."""
    slot = state.counts[SLOTS]
    state.counts[SLOTS] = slot + 1
    state.member[slot] = chunk.points[b]
    state.alpha[slot] = 0.0
    state.g[slot] = g
    state.lower[slot] = min(0.0, chunk.C[b] * chunk.y[b])
    state.upper[slot] = max(0.0, chunk.C[b] * chunk.y[b])
    state.diagonal[slot] = chunk.diagonal[b]
    state.place[slot] = b
    state.row_of[slot] = -1
    acquire(state, slot)
    _complete_row(state, chunk, slot)


@njit(cache=True)
def acquire(state: State, slot: int) -> int:
    """Assign the least recently used cached row to the slot."""
    row = int(np.argmin(state.last_use))
    if state.owner[row] >= 0:
        state.row_of[state.owner[row]] = -1
    state.owner[row] = slot
    state.row_of[slot] = row
    state.length[row] = 0
    _mark_used(state, row)
    return row


@njit(cache=True)
def _mark_used(state: State, row: int) -> None:
    state.counts[CLOCK] += 1
    state.last_use[row] = state.counts[CLOCK]


@njit(cache=True)
def _complete_row(state: State, chunk: Chunk, slot: int) -> int:
    """Complete the cached row of a slot from the chunk; return the row's index, or -1 if the caller
    must supply the row."""
    known = state.counts[KNOWN]
    row = state.row_of[slot]
    is_new = slot >= known
    if row < 0 and is_new:
        row = acquire(state, slot)
    if row < 0 or (state.length[row] < known and not is_new):
        return -1
    values = state.rows[row]
    if is_new:
        for s in range(state.length[row], known):
            values[s] = chunk.against[state.place[slot], s]
    for s in range(max(known, state.length[row]), state.counts[SLOTS]):
        if is_new:
            values[s] = chunk.among[state.place[slot], state.place[s]]
        else:
            values[s] = chunk.against[state.place[s], slot]
    state.length[row] = state.counts[SLOTS]
    _mark_used(state, row)
    return row


@njit(cache=True)
def extremes(state: State) -> tuple[float, int, float, int]:
    """Return (low, down, high, up): the smallest g of the coefficients above their lower bounds and
    its slot, and the largest g of the coefficients below their upper bounds and its slot."""
    n = state.counts[SLOTS]
    alpha, g = state.alpha[:n], state.g[:n]
    low, high = _extreme_gradients(alpha, g, state.lower[:n], state.upper[:n])
    down, up = -1, -1
    for s in range(n):
        if g[s] == low and alpha[s] > state.lower[s]:
            down = s
            break
    for s in range(n):
        if g[s] == high and alpha[s] < state.upper[s]:
            up = s
            break
    return low, down, high, up


@njit(cache=True, fastmath={"nnan", "nsz", "reassoc"})
def _extreme_gradients(
    alpha: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[float, float]:
    """`low` and `high` of `extremes`; the loop vectorises because it does not track slots."""
    low, high = np.inf, -np.inf
    for s in range(len(g)):
        low = min(low, g[s] if alpha[s] > lower[s] else np.inf)
        high = max(high, g[s] if alpha[s] < upper[s] else -np.inf)
    return low, high


@njit(cache=True)
def _step_with_newest(state: State, chunk: Chunk, intercept: bool) -> int:
    """Take a step with the newest slot; return -1, or the slot whose row is missing."""
    newest = state.counts[SLOTS] - 1
    if not intercept:
        return _step(state, chunk, newest)
    _, down, _, up = extremes(state)
    if state.upper[newest] > 0.0:
        up = newest
    else:
        down = newest
    if up < 0 or down < 0 or state.g[up] <= state.g[down]:
        return NONE
    return _pair_step(state, chunk, up, down)


@njit(cache=True)
def _reprocess(state: State, chunk: Chunk, intercept: bool, tol: float) -> int:
    """Take a step with the most violating pair; return -1, or the slot whose row is missing."""
    low, down, high, up = extremes(state)
    violation = high - low if intercept else max(high, -low)
    if not violation > tol or (intercept and (up < 0 or down < 0)):
        return NONE
    if intercept:
        return _pair_step(state, chunk, up, down)
    return _step(state, chunk, up if high >= -low else down)


@njit(cache=True, fastmath={"contract", "nsz", "arcp"})
def _step(state: State, chunk: Chunk, slot: int) -> int:
    """Move one coordinate to its optimum; return as `_reprocess`."""
    row = _complete_row(state, chunk, slot)
    if row < 0:
        return slot
    before = state.alpha[slot]
    best = before + state.g[slot] / state.diagonal[slot]
    state.alpha[slot] = min(max(best, state.lower[slot]), state.upper[slot])
    change = state.alpha[slot] - before
    values = state.rows[row]
    for s in range(state.counts[SLOTS]):
        state.g[s] -= change * values[s]
    state.counts[STEPS] += 1
    return NONE


@njit(cache=True, fastmath={"contract", "nsz", "arcp"})
def _pair_step(state: State, chunk: Chunk, i: int, j: int) -> int:
    """Increase a_i and decrease a_j by the same optimal amount within the bounds; return as
    `_reprocess`."""
    row_i = _complete_row(state, chunk, i)
    if row_i < 0:
        return i
    row_j = _complete_row(state, chunk, j)
    if row_j < 0:
        return j
    values_i, values_j = state.rows[row_i], state.rows[row_j]
    # Guard, as LIBSVM's TAU: rounding may leave a curvature at or below 0.
    curvature = max(state.diagonal[i] + state.diagonal[j] - 2.0 * values_i[j], 1e-12)
    best = (state.g[i] - state.g[j]) / curvature
    max_step_i, max_step_j = state.upper[i] - state.alpha[i], state.alpha[j] - state.lower[j]
    step = min(best, max_step_i, max_step_j)
    state.alpha[i] = state.upper[i] if step == max_step_i else state.alpha[i] + step
    state.alpha[j] = state.lower[j] if step == max_step_j else state.alpha[j] - step
    for s in range(state.counts[SLOTS]):
        state.g[s] -= step * (values_i[s] - values_j[s])
    state.counts[STEPS] += 1
    return NONE


@njit(cache=True)
def _remove_idle(state: State, intercept: bool) -> None:
    """Remove the points with a_s = 0 that form no violating pair."""
    n = state.counts[SLOTS]
    low, high = 0.0, 0.0
    if intercept:
        low, _, high, _ = extremes(state)
    if not _has_removable(state.alpha[:n], state.g[:n], state.upper[:n], low, high):
        return
    for s in range(n):
        is_positive = state.upper[s] > 0.0
        if state.alpha[s] == 0.0 and (
            state.g[s] <= low if is_positive else high <= state.g[s] < np.inf
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
def _has_removable(
    alpha: np.ndarray, g: np.ndarray, upper: np.ndarray, low: float, high: float
) -> bool:
    """Whether `_remove_idle` would remove a point; slots of removed points have g = inf."""
    count = 0
    for s in range(len(g)):
        is_non_violating = g[s] <= low if upper[s] > 0.0 else high <= g[s] < np.inf
        count += 1 if alpha[s] == 0.0 and is_non_violating else 0
    return count > 0
