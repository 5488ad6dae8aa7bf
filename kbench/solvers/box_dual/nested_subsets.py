"""A growing set S of candidate support vectors, searched over nested random subsets of the points.

    N_1 < N_2 < ... < N_L = all points, random             each four times as large as the last
    S = N_1; solve on S loosely
    for l = 2 ... L:
      remove points with large KKT slack from S
      e_i = z_i - K[i, support] b for i in N_l \\ S         computed on the fly, nothing is stored
      near = points with slack below _FAR_SLACK, far = the others
      repeat
        V = near points that violate by more than the tolerance
        if V: S <- S + the worst of V; solve on S; update e of near
        else if l < L: leave the loop
        else: update e of far; move far points with little slack to near; lower the tolerance and
              solve on S
      until the tolerance is the target and no point of near or far violates

Points outside S keep their coefficient, 0 or C, and contribute to e like all others. Only the last
level is solved to the target. The loop ends because every pass adds a point to S, moves a point
from far to near or lowers the tolerance by a constant factor: a point is removed from S at most
_MAX_REMOVALS times, and no point of a level moves from near to far.

With all points in S, ijcnn1 takes 2.1 times as long (`scripts/ablate_svm.py`, `nested_subsets`).
"""

import numpy as np

from kbench.solvers.box_dual.block_descent import BlockDescent
from kbench.solvers.box_dual.iterate import Iterate

# Growth of the subsets from `SolverOptions.first_subset` on. Slower growth repeats the search for
# violators more often, faster growth starts each level farther from its solution
# (`scripts/ablate_svm.py`, `nested_subsets`).
_GROWTH = 4
# In problems of few points the first subset is a sixteenth of the points, but at least 256, so that
# two levels precede the last one. With `first_subset` instead, 4,000 rows of ijcnn1 take 5 % longer
# and 8,000 rows 24 % (`scripts/bench_small.py`).
_FIRST_OF_FEW, _FIRST_FRACTION = 256, 16
# The thresholds below are in units of the mean |z|, which is 1 for classification. They trade the
# size of S against updates of the residual outside it. Set by hand on cod-rna and a9a; the counts
# of kernel values that `scripts/ablate_svm.py` prints show the effect of a change.
# Tolerance of all solves but the last level's.
_LOOSE_TOLERANCE = 0.1
# A point whose slack is above this is far: its residual is updated only if no near point violates.
_FAR_SLACK = 1.0
# A point whose slack is above this is removed from S.
_IDLE_SLACK = 0.3
# A far point whose slack has fallen below this becomes a near point.
_NEAR_SLACK = 0.15
# Factor by which the tolerance falls on the last level, until it is within a factor of 2 of the
# target. Set by hand.
_TIGHTENING = 0.05
# If the free points do not fit into a working set and S would hold more than this fraction of the
# level, S gets all points of the level and their matrix is stored: steps on a part of the points
# find free points that the others change again (docs/solver.md, "Constants").
_MAX_LEVEL_FRACTION = 0.4
# A solve after points have joined S first ends at this fraction of their largest violation, unless
# the tolerance is higher. Set by hand.
_RELAXATION = 0.1
# How often a point may be removed from S, and the least fraction of S that is removed within a
# level: a removal drops the stored kernel rows. Set by hand.
_MAX_REMOVALS = 2
_REMOVED_FRACTION = 0.4


class NestedSubsets:
    """The solver of one problem, which may be solved again from its last solution.

    Parameters
    ----------
    descent : BlockDescent on the iterate, without active points
    all_in_S : Whether S always holds all points
    """

    def __init__(
        self, iterate: Iterate, descent: BlockDescent, rng: np.random.Generator, all_in_S: bool
    ) -> None:
        self.iterate, self.descent, self.rng = iterate, descent, rng
        n = len(iterate)
        self._in_S = np.zeros(n, bool)
        max_first = max(_FIRST_OF_FEW, n // _FIRST_FRACTION)
        self._first_subset = min(descent.options.first_subset, max_first)
        # How often each point was removed from S; the limit, if none may be removed.
        self._removals = np.full(n, _MAX_REMOVALS if all_in_S else 0, np.int8)
        if all_in_S:
            self._add(np.arange(n))

    def from_zero(self, target: float) -> None:
        """Solve from b = 0 to a violation of `target`; unless stopped, update all residuals."""
        it, n = self.iterate, len(self.iterate)
        sizes = [n]
        while sizes[0] // _GROWTH >= self._first_subset and not self._in_S.any():
            sizes.insert(0, sizes[0] // _GROWTH)
        order = self.rng.permutation(n)
        loose_tol = max(target, _LOOSE_TOLERANCE * it.scale)
        if not self._in_S.any():
            self._add(order[: sizes[0]])
        self.descent.solve(target if len(sizes) == 1 else loose_tol)
        if len(sizes) > 1 and not it.budget.reached_limit():
            it.earlier_beta = it.beta.copy()
        for size in sizes[1:]:
            self._remove_idle()
            points = order[:size]
            outside = points[~self._in_S[points]]
            it.residual[outside] = it.z[outside]
            it.update_residual(outside, np.zeros(n))
            self._solve_level(outside, loose_tol, target if size == n else None)
            if it.budget.reached_limit():
                return
            it.earlier_beta = it.beta.copy()

    def from_here(self, target: float) -> None:
        """Solve from an iterate whose residual is up to date at all points."""
        it = self.iterate
        slack = it.slack()
        is_joining = (it.beta != 0.0) & (slack < _IDLE_SLACK * it.scale) | (slack < -target)
        self._add(np.flatnonzero(is_joining & ~self._in_S))
        if self._in_S.all():
            self.descent.solve(target)
            return
        violation = max(0.0, -float(slack.min()))
        loose_tol = max(target, min(_LOOSE_TOLERANCE * it.scale, _RELAXATION * violation))
        self._solve_level(np.flatnonzero(~self._in_S), loose_tol, target)

    def _solve_level(self, outside: np.ndarray, loose_tol: float, target: float | None) -> None:
        """Solve over S and the points `outside`, given residuals of both that are up to date.

        The level ends at the tolerance `target`; if that is None, at `loose_tol`.
        """
        it, descent = self.iterate, self.descent
        far = it.slack(outside) >= _FAR_SLACK * it.scale
        near, far = outside[~far], outside[far]
        beta_of_far = it.beta.copy()  # the coefficients that the residual of `far` belongs to
        tolerance = loose_tol
        self._solve(tolerance, near)
        while not it.budget.reached_limit():
            slack = it.slack(near)
            worst = max(0.0, -slack.min(initial=0.0))
            if worst > tolerance:
                violators = near[slack < -tolerance]
                # If this limit were lower for few points, as the first subset is, covtype_74k would
                # compute 9 % more kernel values, and 34 problems 3 % in the geometric mean
                # (`scripts/bench_svm.py`, `scripts/bench_everyday.py`).
                max_joining = max(descent.options.first_subset, len(descent.active))
                if len(violators) > max_joining:
                    order = np.argpartition(it.slack(violators), max_joining)
                    violators = violators[order[:max_joining]]
                if self._needs_all(len(near) + len(far), len(violators)):
                    it.update_residual(far, beta_of_far)
                    self._add(np.concatenate([near, far]))
                    self.descent.store()
                    near = far = near[:0]
                    tolerance = target or tolerance
                    self._solve(tolerance, near)
                    continue
                near = np.concatenate([near, self._remove_idle(_REMOVED_FRACTION)])
                self._add(violators)
                near = near[~self._in_S[near]]
                relaxed_tol = max(tolerance, _RELAXATION * worst)
                self._solve(relaxed_tol, near)
                if relaxed_tol > tolerance and it.slack(near).min(initial=0.0) >= -tolerance:
                    self._solve(tolerance, near)
                continue
            if target is None:
                return
            it.update_residual(far, beta_of_far)
            beta_of_far = it.beta.copy()
            is_final = tolerance <= target
            slack = it.slack(far)
            is_near = slack < (-target if is_final else _NEAR_SLACK * it.scale)
            near, far = np.concatenate([near, far[is_near]]), far[~is_near]
            if is_final and not is_near.any():
                return
            if not is_final:
                tolerance = (
                    target if _TIGHTENING * tolerance < 2.0 * target else _TIGHTENING * tolerance
                )
                self._solve(tolerance, near)

    def _needs_all(self, n_outside: int, n_violators: int) -> bool:
        """Whether all points of the level should join S, because so many of them violate."""
        n = len(self.descent.active)
        is_large = n + n_violators > _MAX_LEVEL_FRACTION * (n + n_outside)
        return is_large and self.descent.can_store(n + n_outside)

    def _solve(self, tolerance: float, near: np.ndarray) -> None:
        """Solve on S, and bring the residual of `near` up to date."""
        before = self.iterate.beta.copy()
        self.descent.solve(tolerance)
        self.iterate.update_residual(near, before)

    def _add(self, points: np.ndarray) -> None:
        self._in_S[points] = True
        self.descent.extend(points)

    def _remove_idle(self, min_fraction: float = 0.0) -> np.ndarray:
        """Remove points with large KKT slack from S if they are more than `min_fraction` of it.

        Returns the removed indices.
        """
        S = self.descent.active
        is_idle = self.iterate.slack(S) > _IDLE_SLACK * self.iterate.scale
        is_idle &= self._removals[S] < _MAX_REMOVALS
        if not is_idle.any() or is_idle.mean() <= min_fraction:
            return S[:0]
        removed = S[is_idle]
        self._removals[removed] += 1
        self._in_S[removed] = False
        self.descent.activate(S[~is_idle])
        return removed
