"""Block coordinate descent on a subset of the points.

Working sets of Joachims (1999) and ThunderSVM's "new half" rule (Wen et al. 2018), with small dense
solvers inside:

    repeat                                                   on the points of S
      W = newest half of the last W + the worst violators in S, q together
          (with an intercept: half of them worst upwards, half worst downwards)
      descend on b_W with K_WW                               coordinates, or pairs of them
      where coordinates creep: Newton steps on their face
      e_S <- e_S - K[S, moved] (change of b)
    until the violation on S <= target

Half of a working set stays for the next: without it, hundreds of free points that are nearly
optimal undo one another's moves.
"""

import math

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.solvers.coordinate_descent import coordinate_steps
from kbench.solvers.face_newton import face_steps
from kbench.solvers.iterate import Iterate, extremes
from kbench.solvers.pair_descent import pair_steps
from kbench.solvers.row_cache import RowCache

WORKING_SET = 512
# Where more points than this are free, a larger block lets more of them settle together.
_MANY_FREE = 512
_INNER_RELATIVE = 0.03
_STEPS_PER_POINT = 20
# Where the block is all there is, nothing is gained by leaving it early; limits are looked at only
# between blocks, so that even then it ends.
_STEPS_ALONE = 2_000_000
_VISIBLE = 0.02
# Coordinates that have left so many blocks unfinished are creeping on a face of the box, unless the
# violation, in units of the linear term, is so large that they are still looking for it.
_CREEPING = 20
_FACE_FOUND = 0.1
# Of more values than this for each that is wanted, one in so many tells where the largest are.
_FEW, _STRIDE = 40, 8
# Blocks without a lower violation than ever before.
_PATIENCE = 200


class BlockDescent:
    """Descent on the points `active` of an iterate.

    Parameters
    ----------
    iterate : Iterate
    kernel : KernelMatrix
        Of the iterate's points, in the precision that steps are to be made in.
    rows : RowCache of `kernel`

    Attributes
    ----------
    active : (m,) indices
        S.
    """

    def __init__(self, iterate: Iterate, kernel: KernelMatrix, rows: RowCache) -> None:
        self.iterate, self.kernel, self.rows = iterate, kernel, rows
        self.activate(np.empty(0, np.intp))

    def activate(self, points: np.ndarray) -> None:
        """Make these the active points. The rows that were stored are forgotten."""
        self.active = points
        self.rows.lay_out(points, len(points))
        self._gram: np.ndarray | None = None

    def extend(self, points: np.ndarray) -> None:
        """Append points to the active ones."""
        if len(points):
            self.active = np.concatenate([self.active, points])
            self.rows.extend(points)
            self._gram = None

    def solve(self, target: float) -> float:
        """Lower the violation on the active points to `target`; what it is at the end.

        Ends above `target` only at a limit, or where rounding of the kernel's precision hides
        whether it has been reached.
        """
        it, S, budget = self.iterate, self.active, self.iterate.budget
        beta, e, lower, upper = it.beta[S], it.residual[S], it.lower[S], it.upper[S]
        diagonal = it.diagonal[S]
        steps_in = pair_steps if it.coupled else coordinate_steps
        fine = not it.coupled and _rounding(diagonal, upper - lower) > _VISIBLE * target
        size = WORKING_SET if len(S) > 2 * WORKING_SET else 2 * WORKING_SET
        W, new = np.empty(0, np.intp), slice(0, 0)
        lowest, stalled, exhausted = math.inf, 0, 0
        # Each product of an entry and a change is rounded: e is off by about eps |changes|_2.
        eps, squared_changes = np.finfo(self.kernel.dtype).eps * diagonal.max(initial=0.0), 0.0
        while True:
            e_up, e_down, it.intercept, violation = extremes(
                beta, e, lower, upper, it.intercept, it.coupled
            )
            if violation <= max(target, eps * math.sqrt(squared_changes)) or budget.exhausted():
                break
            # Rounding can also keep blocks moving without an end.
            lowest, stalled = min(lowest, violation), 0 if violation < lowest else stalled + 1
            if stalled > _PATIENCE:
                break
            if size < 2 * WORKING_SET:
                n_free = np.count_nonzero((beta > lower) & (beta < upper))
                size *= 2 if n_free > _MANY_FREE else 1
            W, new = _working_set(e_up, e_down, it.intercept, W, new, size, it.coupled)
            whole = len(W) == len(S)
            K_W = self._block(W, whole, new)
            most = _STEPS_ALONE if whole else _STEPS_PER_POINT * len(W)
            stop = target if whole else max(_INNER_RELATIVE * violation, 0.5 * target)
            before, beta_W, e_W = beta[W], beta[W], e[W] - it.intercept
            steps = steps_in(
                K_W.astype(np.float64, copy=False) if fine else K_W,
                beta_W,
                e_W,
                lower[W],
                upper[W],
                diagonal[W],
                2.0 * stop if it.coupled else stop,
                int(min(most, budget.max_iter - budget.n_iter)),
            )
            if steps == 0:
                break
            budget.spend(steps)
            exhausted += steps >= most
            creeping = steps >= most and exhausted > _CREEPING
            if creeping and violation < _FACE_FOUND * it.scale and not it.coupled:
                face_steps(K_W, beta_W, e_W, lower[W], upper[W], ridge=eps * len(W))
            change = beta_W - before
            beta[W] = beta_W
            e_W += it.intercept
            # f falls by change'(e before + e after) / 2.
            it.objective -= 0.5 * float(change @ (e[W] + e_W))
            if whole:
                e[W] = e_W
            else:
                moved = np.flatnonzero(change)
                e -= self.rows.product(S[W[moved]], change[moved])
                squared_changes += float(change @ change)
            if budget.trace.active:
                it.beta[S] = beta
                it.report(violation, len(S))
        it.beta[S], it.residual[S] = beta, e
        return violation

    def _block(self, W: np.ndarray, whole: bool, new: slice) -> np.ndarray:
        """K_WW; kept for the next solve where it is that of all active points.

        new : where W differs from the last working set
        """
        if self._gram is not None:
            return self._gram
        block = self.rows.gram(W, None if whole else new)
        if whole:
            self._gram = block
        return block


def _rounding(diagonal: np.ndarray, room: np.ndarray) -> float:
    """By how much float32 rounds the residual after the longest step of a coordinate."""
    longest = diagonal.max(initial=0.0) * room.max(initial=0.0)
    return float(np.finfo(np.float32).eps * longest)


def _working_set(
    e_up: np.ndarray,
    e_down: np.ndarray,
    intercept: float,
    last: np.ndarray,
    new: slice,
    size: int,
    coupled: bool,
) -> tuple[np.ndarray, slice]:
    """The working set after `last`, in which `new` was new, and what is new in it.

    The worst points take the place of the older half; of all where that had another size. All
    points when they are few. Overwrites e_up, e_down.

    `coupled`: as many of the worst upwards as downwards; a step needs one of each.
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
        W[new] = _largest(worst, n_new)
        return W, new
    e_up[kept] = e_down[kept] = -np.inf
    ups = _largest(e_up, n_new // 2)
    e_down[ups] = -np.inf
    # In turns: either half of what is new has as many of both.
    W[new][::2], W[new][1::2] = ups, _largest(e_down, n_new - len(ups))
    return W, new


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """Places of the k largest values."""
    if len(values) > _FEW * k:
        places = _candidates(values, k)
        if len(places) >= k:
            return places[np.argpartition(values[places], -k)[-k:]]
    return np.argpartition(values, -k)[-k:]


def _candidates(values: np.ndarray, k: int) -> np.ndarray:
    """Places of what is about among the 2 k largest, as a sample tells.

    To partition all takes many times as long where most are the same: points that cannot move.
    """
    sample = values[::_STRIDE]
    rank = 2 * (k // _STRIDE + 1)
    return np.flatnonzero(values >= np.partition(sample, -rank)[-rank])
