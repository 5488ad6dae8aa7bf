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

In a stream (`visit_chunk`), the points of each chunk are visited in their order, the seeds are the
first points of each class, and there is no finishing.

A step with the pair (i up, j down) is the minimum of (g_i - g_j) / (k_ii + k_jj - 2 k_ij),
B_i - a_i and a_j - A_j. Without intercept a step moves one coordinate by clip(g_i / k_ii), and
gradients are compared with 0, as with the option -b 0 of the authors' program. The authors finish
with REPROCESS steps on S; `solve_box_dual` reaches the same solution from the current a.

Kernel values are computed for chunks of points against S, and in rows of S that a bounded cache
keeps. Slots hold the points of S in the order of their arrival. The slots of removed points are
marked, and compacted when they are more than half of all slots.

The cache is not `kbench.solvers.box_dual.row_cache.RowCache`, which serves blocks of rows to Python
code for a fixed set of columns. In LaSVM, compiled code reads one or two rows for each step and
extends rows with values computed for the chunk, and every point that enters or leaves S changes the
columns.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual.solve import BoxDualResult, solve_box_dual
from kbench.solvers.incremental.lasvm_steps import (
    KNOWN,
    NONE,
    SLOTS,
    STEPS,
    Chunk,
    State,
    acquire,
    extremes,
    visit,
)
from kbench.trace import Deadline, Trace

# Points whose kernel values with S are computed together: with more points a value takes less time,
# but more values are computed for points that leave S in the meantime. Set by hand.
_CHUNK = 256
# Points of each class that S starts with (the authors' program).
_SEEDS_PER_CLASS = 5
# Guard: least number of cached rows, whatever `cache_mb` is.
_MIN_ROWS = 16
_UNLIMITED = np.iinfo(np.int64).max


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

    kernel : KernelMatrix of n points
    y : (n,) array of -1 and +1
    C : (n,) array, >= 0. Points with 0 are not visited.
    rng : Draws the order
    cache_mb : MiB of kernel rows of the expansion; at least 16 rows are kept
    max_iter : Limit on the number of steps; -1 means no limit
    max_time : Limit in seconds, checked between chunks
    trace : Receives n_support and n_visited after each chunk

    Returns the solution of the dual of S: at the other points alpha is 0 and gradient NaN. n_iter
    and kernel_entries include the visits and the finishing.

    A visit computes |S| kernel values, O(|S| d), and takes at most two steps, each O(|S|) and up to
    |S| more kernel values. Memory: `cache_mb`, 256 |S| kernel values, O(n d).
    """
    steps = _UNLIMITED if max_iter < 0 else max_iter
    trace = Trace() if trace is None else trace
    deadline = Deadline(max_time, trace)
    learner = _Learner(kernel, y, C, intercept, tol, cache_mb, steps, deadline, trace)
    return learner.fit(rng, epochs)


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

    kernel, y, C, intercept, tol, cache_mb : As in `solve_online`
    points : (b,) ints. Points to visit, outside S.
    alpha : (n,) array, >= 0. Starting point.
    gradient : (n,) array. As in `BoxDualResult`; NaN at the points outside S.

    Returns the current a in the form of `solve_online`'s result: all attributes are of the dual of
    S, and stop_reason is "max_iter" unless the violation is at most tol.
    """
    deadline = Deadline(None, Trace())
    learner = _Learner(kernel, y, C, intercept, tol, cache_mb, _UNLIMITED, deadline, Trace())
    learner.start_from(alpha, gradient)
    points = points[C[points] > 0]
    classes_in_S = y[np.isfinite(gradient)]
    seeds = [
        points[y[points] == sign][:_SEEDS_PER_CLASS] for sign in (-1, 1) if sign not in classes_in_S
    ]
    if seeds:
        learner.visit(np.concatenate(seeds), seeding=True)
    for start in range(0, len(points), _CHUNK):
        learner.visit(points[start : start + _CHUNK])
    return learner.result_so_far()


class _Learner:
    """The expansion with its cached rows, and the visits that change it."""

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
        self.diagonal = np.maximum(kernel.diagonal(), 1e-12)  # guard: steps divide by it
        self.state = self.empty_state(1)
        self.slot_points = kernel.points(np.empty(0, np.intp))

    def fit(self, rng: np.random.RandomState, epochs: int) -> BoxDualResult:
        usable = np.flatnonzero(self.C > 0)
        classes = [usable[self.y[usable] == sign] for sign in (-1, 1)]
        self.visit(
            np.concatenate([rng.permutation(rows)[:_SEEDS_PER_CLASS] for rows in classes]),
            seeding=True,
        )
        n_visited = 0
        for points in _chunks(usable, epochs, rng):
            if self.deadline.passed or self.state.counts[STEPS] >= self.max_iter:
                break
            self.visit(points)
            n_visited += len(points)
            n_support = int((self.members() >= 0).sum())
            self.trace(n_support=n_support, n_visited=n_visited)
        return self.finish()

    def start_from(self, alpha: np.ndarray, gradient: np.ndarray) -> None:
        """Start from alpha : (n,). S consists of the points whose gradient : (n,) is finite."""
        points = np.flatnonzero(np.isfinite(gradient))
        n, signs = len(points), self.y[points]
        self.state = self.empty_state(max(1, n))
        self.state.counts[SLOTS] = n
        self.state.member[:n] = points
        self.state.alpha[:n] = signs * alpha[points]
        self.state.g[:n] = -signs * gradient[points]
        self.state.lower[:n] = np.minimum(0.0, signs * self.C[points])
        self.state.upper[:n] = np.maximum(0.0, signs * self.C[points])
        self.state.diagonal[:n] = self.diagonal[points]

    def members(self) -> np.ndarray:
        """Points by slot, -1 for removed ones."""
        return self.state.member[: self.state.counts[SLOTS]]

    def visit(self, points: np.ndarray, *, seeding: bool = False) -> None:
        """PROCESS and REPROCESS for each of the points outside S."""
        chunk = self.make_chunk(points[~np.isin(points, self.members())])
        position, slot = 0, NONE
        while position < 3 * len(chunk.points):
            position, slot = visit(
                self.state, chunk, position, self.intercept, seeding, self.tol, self.max_iter
            )
            if slot >= 0:
                self.complete_row(slot)

    def make_chunk(self, points: np.ndarray) -> Chunk:
        """Return the points with their kernel values; reserve a slot for each of them."""
        self.reserve_slots(len(points))
        # The values at the slots of removed points are not used.
        self.slot_points = self.kernel.points(self.members())
        return Chunk(
            points=points,
            y=self.y[points],
            C=self.C[points],
            diagonal=self.diagonal[points],
            against=self.kernel.block(points, self.slot_points),
            among=self.kernel.square(points),
        )

    def finish(self) -> BoxDualResult:
        """Solve the dual of S, starting from the current a."""
        n, n_steps = len(self.y), int(self.state.counts[STEPS])
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

    def result_so_far(self) -> BoxDualResult:
        """The dual of S at the current a."""
        slots = np.flatnonzero(self.members() >= 0)
        points, coef, g = (a[slots] for a in (self.state.member, self.state.alpha, self.state.g))
        y, C = self.y[points], self.C[points]
        low, _, high, _ = extremes(self.state)
        if self.intercept:
            # `low` or `high` is infinite if S has a single class.
            finite_ends = [limit for limit in (low, high) if np.isfinite(limit)]
            b, violation = float(np.mean(finite_ends)) if finite_ends else 0.0, high - low
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
            objective=float(matmul(-0.5 * coef, y + g)),
            violation=violation,
            duality_gap=float(
                np.sum(np.where(margin > 0.0, np.abs(coef), np.abs(coef) - C) * margin)
            ),
            n_iter=int(self.state.counts[STEPS]),
            kernel_entries=self.kernel.n_entries - self.entries_before,
            converged=converged,
            stop_reason="tol" if converged else "max_iter",
            n_groups=1,
        )

    def complete_row(self, slot: int) -> None:
        """Complete the cached row of a slot for the slots at the start of the chunk."""
        state = self.state
        row = state.row_of[slot]
        if row < 0:
            row = acquire(state, slot)
        missing = slice(state.length[row], state.counts[KNOWN])
        point = state.member[slot : slot + 1]
        state.rows[row, missing] = self.kernel.block(point, self.slot_points[missing])[0]
        state.length[row] = state.counts[KNOWN]

    def reserve_slots(self, n_free: int) -> None:
        """Provide `n_free` free slots.

        The slots are compacted if too few are free, or if more than half hold removed points. Their
        new number is `n_free` plus twice that of the points, so that S grows with few copies.
        """
        members = self.members()
        occupied = np.flatnonzero(members >= 0)
        if len(members) + n_free > len(self.state.member) or 2 * len(occupied) < len(members):
            self.state = self.compacted(occupied, 2 * len(occupied) + n_free)
        self.state.counts[KNOWN] = self.state.counts[SLOTS]

    def empty_state(self, capacity: int) -> State:
        cache_values = int(self.cache_mb * 2**20) // self.kernel.dtype.itemsize
        n_rows = min(capacity, max(_MIN_ROWS, cache_values // capacity))
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

    def compacted(self, slots: np.ndarray, capacity: int) -> State:
        """The state of `slots` : (m,), increasing, and of the most recently used rows that fit."""
        old, new = self.state, self.empty_state(max(1, capacity))
        new.counts[:] = old.counts
        new.counts[SLOTS] = len(slots)
        for name in ("member", "alpha", "g", "lower", "upper", "diagonal"):
            getattr(new, name)[: len(slots)] = getattr(old, name)[slots]
        cached_slots = np.flatnonzero(old.row_of[slots] >= 0)
        rows = old.row_of[slots[cached_slots]]
        recent = np.argsort(-old.last_use[rows], kind="stable")[: len(new.owner)]
        for row, (slot, old_row) in enumerate(zip(cached_slots[recent], rows[recent], strict=True)):
            length = np.searchsorted(slots, old.length[old_row])
            new.rows[row, :length] = old.rows[old_row, slots[:length]]
            new.length[row] = length
            new.last_use[row] = old.last_use[old_row]
            new.owner[row] = slot
            new.row_of[slot] = row
        return new


def _chunks(points: np.ndarray, epochs: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    for _ in range(epochs):
        order = rng.permutation(points)
        for start in range(0, len(order), _CHUNK):
            yield order[start : start + _CHUNK]
