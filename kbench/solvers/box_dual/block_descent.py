"""Block coordinate descent on a subset S of the points.

Working sets of Joachims (1999), half of which stay as in ThunderSVM (Wen et al. 2018), with small
dense solvers for the problem of each working set:

    repeat                                                   on the points of S
      W = newer half of the last W + the worst violators in S, q together
          (with an intercept: half of these can go up, half can go down)
      descend on b_W with K_WW                               coordinates, or pairs of them
      in a regression whose free points nearly fit into W, if pairs make little progress: the
        minimum over the free points of W, then pairs again
      if coordinates make little progress: Newton steps on their face of the bounds
      e_S <- e_S - K[S, moved] (change of b)
      in a regression, once the working sets since the last such minimum have cost as much as one:
        the minimum over all free points of S
      if more points are free than fit into W, and working sets have computed several times as many
        values as K_SS has: continue with all of K_SS stored (`stored_descent`)
    until the violation on S <= target

Invariant: `residual` is up to date on all of S. Unless half of a working set is kept, cod-rna takes
30 times as long (`scripts/ablate_svm.py`, `keep_half`).
"""

import functools
import math

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual.coordinate_descent import coordinate_steps
from kbench.solvers.box_dual.face_newton import face_steps
from kbench.solvers.box_dual.face_pivoting import descend_to_minimum
from kbench.solvers.box_dual.iterate import MINUS_INFINITY, PATIENCE, Iterate, extremes, free_points
from kbench.solvers.box_dual.options import SolverOptions
from kbench.solvers.box_dual.pair_descent import pair_steps
from kbench.solvers.box_dual.row_cache import RowCache
from kbench.solvers.box_dual.stored_descent import StoredDescent

# Number q of points in a working set; doubled if more than q points are free. A larger set needs
# fewer updates of e, but each step inside costs O(q). K_WW of 512 points in float32 is 1 MiB and
# stays in the L2 cache (docs/solver.md, "Constants").
WORKING_SET = 512
# Number q where a kernel value takes at least _EXPENSIVE_NS nanoseconds: the values of points that
# do not move are computed in vain, and a smaller set has fewer of them (embeddings in
# `scripts/bench_everyday.py`: 17 % fewer kernel values with 768 columns; with a limit of 1.8
# nanoseconds instead, mnist_20k takes 5 % longer).
_SMALL_WORKING_SET, _EXPENSIVE_NS = 128, 3.0
# A working set is left when its violation has fallen to this fraction of the violation on S: the
# next working set undoes most of any further steps (ijcnn1; docs/solver.md, "Constants").
_INNER_RELATIVE = 0.03
# A working set is also left when its violation is at this fraction of the target. The fraction is
# below 1 because the residual of S is rounded differently, and its violation must not exceed the
# target. With 0.5, ijcnn1 takes 11 % and cod-rna 8 % more steps; with 1, both compute 1 % more
# kernel values (means of four orders of rows).
_INNER_TARGET = 0.75
# Limit on the steps inside a working set, per point. Set by hand.
_STEPS_PER_POINT = 20
# Limit on the steps if S is at most two working sets: all points are in W, so leaving W early gains
# nothing. `max_time` is checked only between working sets, after about two seconds at most. Guard.
_MAX_STEPS_WHOLE = 2_000_000
# Guard, in place of `PATIENCE`: number of times that all active points take _MAX_STEPS_WHOLE steps
# without a new minimum of the violation; rounding or curvatures near 0 then prevent progress.
_PATIENCE_WHOLE = 5
# Inner steps without intercept are made in float64 if float32 would round e by more than this
# fraction of the target in one step. Set by hand.
_VISIBLE_ROUNDING = 0.02
# Newton steps on the face are tried after this many working sets were left at the limit of steps,
# once the violation is below _FACE_VIOLATION mean |z|: above that the face still changes
# (docs/solver.md, "Constants").
_SLOW_SETS = 20
_FACE_VIOLATION = 0.1
# The minimum over all m free points of a regression is computed after max(2, m^2 / _SETS_PER_FACE)
# working sets, once the violation is below _FACE_VIOLATION mean |z|. If it is computed more often,
# changes of the face undo most of it; less often, working sets make slow progress. Half and twice
# the value take 1.0 to 1.2 times as long on kin40k, bike and cpusmall at C = 10, 10,000 rows.
_SETS_PER_FACE = 5e5
# Limit on the points of that minimum: K of 4,000 points takes 122 MiB in float64, its factorisation
# 0.35 s.
_MAX_FREE = 4000
# The minimum over the free points of W is computed once pairs have taken this many steps a point
# and at most _FREE_OF_SET |W| points of S are free: with more, the next sets undo the minimum. The
# number of steps is multiplied by _AFTER_SUCCESS after an attempt that found the minimum, and by
# _AFTER_FAILURE after another (set by hand), between _MIN_PAIRS and _MAX_PAIRS. These minima save a
# quarter of the time on cadata and cpusmall, C = 100, 10,000 rows (`bench_small.py --regression`).
_PAIRS_BEFORE_FACE, _MIN_PAIRS, _MAX_PAIRS = 12.0, 6.0, 16.0
_AFTER_SUCCESS, _AFTER_FAILURE = 0.8, 1.5
_FREE_OF_SET = 1.5
# The matrix of S is stored after working sets have computed this many times |S|^2 kernel values,
# which most sets S never need. With 1, w8a takes twice as long, with 4 ijcnn1 a tenth longer.
_STORED_AFTER = 16
# In a regression, whose minima over all free points need no stored matrix, the one of m points is
# stored once working sets have taken this number of nanoseconds times m^2. If it is stored from the
# start, kin40k with C = 10 takes 1.6 times as long, cadata with C = 100 2.2 times and 14 problems
# 1.21 times in the geometric mean; with twice the number, the 14 take .96 times as long, seven of
# everyday data 1.08 times (`scripts/bench_small.py --regression`, `scripts/bench_everyday.py`).
_STORED_NS = 6.0


class BlockDescent:
    """Descent on the points S of an iterate.

    Parameters
    ----------
    kernel : Of the iterate's points; its dtype is the precision of the steps
    rows : RowCache of `kernel`

    Attributes
    ----------
    active : (m,) indices. S.
    """

    def __init__(
        self, iterate: Iterate, kernel: KernelMatrix, rows: RowCache, options: SolverOptions
    ) -> None:
        self.iterate, self.kernel, self.rows = iterate, kernel, rows
        self.options = options
        self._pairs_before_face = _PAIRS_BEFORE_FACE
        self._values_in_all = 0  # kernel values that working sets of all S so far have computed
        self.activate(np.empty(0, np.intp))

    def activate(self, points: np.ndarray) -> None:
        """Make these the active points S; stored kernel rows are dropped."""
        self.active = points
        self.rows.lay_out(points, len(points))
        self._gram: np.ndarray | None = None
        self._stored: StoredDescent | None = None
        self._values_computed = 0  # kernel values that working sets of this S have computed

    def extend(self, points: np.ndarray) -> None:
        """Append points, whose residual is up to date, to S."""
        if len(points):
            self.active = np.concatenate([self.active, points])
            self.rows.extend(points)
            self._gram = self._stored = None
            self._values_computed = 0

    def can_store(self, m: int) -> bool:
        """Whether to store the matrix of m points, which include S.

        The matrix is worth its memory if the free points of S do not fit into a working set, so
        that working sets undo each other's steps.
        """
        it, S = self.iterate, self.active
        n_free = int(np.count_nonzero(free_points(it.beta[S], it.lower[S], it.upper[S])))
        is_wanted = self.options.stored_matrix and it.coupled and n_free > 2 * WORKING_SET
        if it.epsilon and self._values_in_all * self.kernel.nanoseconds < _STORED_NS * m * m:
            return False
        return is_wanted and self.rows.holds_matrix(m)

    def store(self) -> None:
        """Store the matrix of S until S changes."""
        matrix = self.rows.matrix()
        self._stored = StoredDescent(self.iterate, self.kernel, self.active, matrix, self.options)

    def solve(self, target: float) -> float:
        """Lower the violation on S to `target`; return the violation at the end.

        The violation is above `target` only at a limit, or if the kernel's precision does not show
        whether the target is reached. Each working set costs |S| q kernel values.
        """
        if self._stored is not None:
            return self._stored.solve(target)
        it, S, budget = self.iterate, self.active, self.iterate.budget
        beta, e, lower, upper = it.beta[S], it.residual[S], it.lower[S], it.upper[S]
        diagonal = it.diagonal[S]
        options = self.options
        take_steps = options.inner_steps or (pair_steps if it.coupled else coordinate_steps)
        in_float64 = (
            not it.coupled and _rounding(diagonal, upper - lower) > _VISIBLE_ROUNDING * target
        )
        is_few = len(S) <= 2 * WORKING_SET
        is_expensive = _EXPENSIVE_NS <= self.kernel.nanoseconds < math.inf
        size = 2 * WORKING_SET if is_few else _SMALL_WORKING_SET if is_expensive else WORKING_SET
        # In a regression, S stays more than one working set: minima over all its free points come
        # between them.
        if not is_few and len(S) <= options.whole_set and not it.epsilon:
            size = len(S)
        W, new = np.empty(0, np.intp), slice(0, 0)
        lowest, n_stalled, n_exhausted, since_face = math.inf, 0, 0, 0
        # Each product of a kernel value and a change is rounded: e is off by eps |changes|_2.
        eps, squared_changes = np.finfo(self.kernel.dtype).eps * diagonal.max(initial=0.0), 0.0
        while True:
            e_up, e_down, it.intercept, violation = extremes(
                beta, e, lower, upper, it.intercept, it.epsilon, coupled=it.coupled
            )
            if violation <= max(target, eps * math.sqrt(squared_changes)) or budget.reached_limit():
                break
            n_free = int(np.count_nonzero(free_points(beta, lower, upper)))
            if self._face_is_due(since_face, violation, n_free):
                face_step = descend_to_minimum(
                    self.kernel,
                    S,
                    beta,
                    e,
                    lower,
                    upper,
                    it.epsilon,
                    lambda moved, change: self.rows.product(S[moved], change),
                )
                if face_step is not None:
                    it.objective -= face_step.decrease
                    since_face = 0
                    squared_changes += float(matmul(face_step.change, face_step.change))
                    continue
                # The next attempt waits for twice as many working sets.
                since_face = -since_face
            lowest, n_stalled = min(lowest, violation), 0 if violation < lowest else n_stalled + 1
            if n_stalled > (_PATIENCE_WHOLE if is_few and n_exhausted >= n_stalled else PATIENCE):
                break
            if size < 2 * WORKING_SET and n_free > size:
                size *= 2
            if not options.keep_half:
                W = W[:0]
            W, new = working_set(e_up, e_down, it.intercept, W, new, size, coupled=it.coupled)
            is_whole = len(W) == len(S)
            K_W = self._block(W, is_whole)
            max_steps = _MAX_STEPS_WHOLE if is_few else _STEPS_PER_POINT * len(W)
            stop = target if is_whole else max(_INNER_RELATIVE * violation, _INNER_TARGET * target)
            max_steps = int(min(max_steps, budget.max_iter - budget.n_iter))
            before, beta_W, e_W = beta[W], beta[W], e[W] - it.intercept
            lower_W, upper_W = lower[W], upper[W]
            descend = functools.partial(
                take_steps,
                K_W.astype(np.float64, copy=False) if in_float64 else K_W,
                beta_W,
                e_W,
                lower_W,
                upper_W,
                diagonal[W],
                2.0 * stop if it.coupled else stop,
            )
            tries_face = self._minimises_faces and n_free <= _FREE_OF_SET * len(W)
            first_steps = (
                min(max_steps, int(self._pairs_before_face * len(W))) if tries_face else max_steps
            )
            steps = descend(first_steps, it.epsilon)
            if steps == first_steps < max_steps:
                self._minimise_in_set(S[W], K_W, beta_W, e_W, lower_W, upper_W)
                steps += descend(max_steps - first_steps, it.epsilon)
            if steps == 0:
                break
            budget.spend(steps)
            since_face += not is_whole
            n_exhausted += steps >= max_steps
            is_slow = options.face_newton and steps >= max_steps and n_exhausted > _SLOW_SETS
            if is_slow and violation < _FACE_VIOLATION * it.scale and not it.coupled:
                ridge = eps * len(W)
                face_steps(K_W, beta_W, e_W, lower[W], upper[W], it.epsilon, ridge=ridge)
            change = beta_W - before
            beta[W] = beta_W
            e_W += it.intercept
            it.lower_objective(before, beta_W, e[W], e_W)
            if is_whole and K_W.dtype == np.float64:
                # The product with the whole change is rounded once, e_W after every step.
                e[W] -= matmul(K_W, change)
                it.rounding += eps * float(np.linalg.norm(change))
            elif is_whole:
                e[W] = e_W
            else:
                moved = np.flatnonzero(change)
                self._values_computed += len(S) * len(W)
                self._values_in_all += len(S) * len(W)
                e -= self.rows.product(S[W[moved]], change[moved])
                squared_changes += float(matmul(change, change))
            if budget.trace.active:
                it.beta[S] = beta
                it.report(violation, len(S))
            if (
                not is_whole
                and self._values_computed >= _STORED_AFTER * len(S) ** 2
                and n_free > 2 * WORKING_SET
            ):
                it.beta[S], it.residual[S] = beta, e
                if self.can_store(len(S)):
                    it.rounding += eps * math.sqrt(squared_changes)
                    self.store()
                    return self.solve(target)
        it.beta[S], it.residual[S] = beta, e
        it.rounding += eps * math.sqrt(squared_changes)
        return violation

    @property
    def _minimises_faces(self) -> bool:
        """Whether minima over all free points of S or W are computed."""
        return bool(self.iterate.epsilon and self.iterate.coupled and self.options.face_newton)

    def _face_is_due(self, n_sets: int, violation: float, n_free: int) -> bool:
        """Whether to compute a minimum over the free points of S, `n_sets` working sets after the
        last one."""
        if not self._minimises_faces or n_sets < max(2.0, n_free * n_free / _SETS_PER_FACE):
            return False
        return violation < _FACE_VIOLATION * self.iterate.scale and 2 <= n_free <= _MAX_FREE

    def _minimise_in_set(
        self,
        points: np.ndarray,
        K: np.ndarray,
        beta: np.ndarray,
        e: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
    ) -> None:
        """Minimise over the free points of a working set, in place; decide when to try again."""

        def product(moved: np.ndarray, change: np.ndarray) -> np.ndarray:
            full = np.zeros(len(beta), K.dtype)
            full[moved] = change
            return matmul(K, full)

        epsilon = self.iterate.epsilon
        step = descend_to_minimum(self.kernel, points, beta, e, lower, upper, epsilon, product)
        wait = self._pairs_before_face * (_AFTER_FAILURE if step is None else _AFTER_SUCCESS)
        self._pairs_before_face = min(max(wait, _MIN_PAIRS), _MAX_PAIRS)

    def _block(self, W: np.ndarray, is_whole: bool) -> np.ndarray:
        """Return K_WW; if W = S (`is_whole`), the matrix is stored for the next solve."""
        if self._gram is not None:
            return self._gram
        block = self.rows.gram(W)
        if is_whole:
            self._gram = block
        return block


def _rounding(diagonal: np.ndarray, width: np.ndarray) -> float:
    """Return the float32 rounding error of e after the longest step within bounds of this width."""
    longest = diagonal.max(initial=0.0) * width.max(initial=0.0)
    return float(np.finfo(np.float32).eps * longest)


def working_set(
    e_up: np.ndarray,
    e_down: np.ndarray,
    intercept: float,
    last: np.ndarray,
    new: slice,
    size: int,
    *,
    coupled: bool,
) -> tuple[np.ndarray, slice]:
    """Return the working set after `last`, and the slice in which it differs from `last`.

    The worst violators replace the half of `last` outside the slice `new`, or all of `last` if it
    had another size. If there are at most `size` points, they are the working set. With `coupled`,
    as many points that can go up as points that can go down are added, because a step needs one of
    each. Overwrites e_up and e_down. O(m).
    """
    if len(e_up) <= size:
        return np.arange(len(e_up)), slice(0, len(e_up))
    half = size // 2
    if len(last) != size:
        W, new, kept = np.empty(size, np.intp), slice(0, size), last[:0]
    elif new.start == 0:
        W, new, kept = last.copy(), slice(half, size), last[:half]
    else:
        W, new, kept = last.copy(), slice(0, half), last[half:]
    n_new = new.stop - new.start
    if not coupled:
        worst = np.maximum(e_up - intercept, e_down + intercept)
        worst[kept] = -np.inf
        W[new] = largest(worst, n_new)
        return W, new
    e_up[kept] = e_down[kept] = -np.inf
    going_up = largest(e_up, n_new // 2)
    e_down[going_up] = -np.inf
    # Both kinds alternate, so that each half of the new points has as many of one as of the other.
    W[new][::2], W[new][1::2] = going_up, largest(e_down, n_new - len(going_up))
    return W, new


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """Return the positions of the k largest values, in any order. O(m).

    Most values are minus infinity, of points at a bound, and are not searched if k others exist:
    partitioning many equal values takes ten times as long as partitioning different ones.
    """
    finite = np.flatnonzero(values > MINUS_INFINITY)
    if len(finite) <= k:
        return np.argpartition(values, -k)[-k:]
    return finite[np.argpartition(values[finite], -k)[-k:]]
