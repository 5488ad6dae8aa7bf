"""Growing working superset over nested random subsets: the points that matter, found cheaply.

    N_1 < N_2 < ... < N_L = all points, random             each about four times the last
    S = N_1; solve on S loosely
    for l = 2 ... L:
      drop from S what is firmly held
      e_i = z_i - K[i, support] b for i in N_l \\ S         matrix-free: nothing is stored
      near = those held by less than theta, far = the others
      repeat
        V = near points that violate by more than t
        if V: S <- S + the worst of V; solve on S; update e of near
        else if l < L: leave
        else: update e of far; who is no longer far goes to near; lower t, solve on S
      until t = tolerance, and nobody of near or far violates

Only the last level is solved to tolerance. A point is dropped from S at most twice, so the loop
ends.
"""

import numpy as np

from kbench.solvers.block_descent import BlockDescent
from kbench.solvers.iterate import Iterate

_FIRST_SUBSET = 1024
_GROWTH = 4
# In units of the linear term (the margin): the tolerance of all but the last solves, the resistance
# from which a point is only looked at now and then, and that from which it leaves S.
_LOOSE = 0.1
_FAR = 1.0
_IDLE = 0.3
# A point that was far and has come closer than this is watched from then on.
_APPROACHED = 0.15
_TIGHTEN = 0.05
_DROPS = 2
_DROP_SHARE = 0.4


class NestedSubsets:
    """A problem that is solved, and solved again when it has changed a little.

    Parameters
    ----------
    iterate : Iterate
    descent : BlockDescent on it, without active points
    rng : numpy Generator
    everything : bool
        Whether S is to hold all points, always.
    """

    def __init__(
        self, iterate: Iterate, descent: BlockDescent, rng: np.random.Generator, everything: bool
    ) -> None:
        self.iterate, self.descent, self.rng = iterate, descent, rng
        n = len(iterate)
        self.in_S = np.zeros(n, bool)
        self.drops = np.full(n, _DROPS if everything else 0, np.int8)
        if everything:
            self.add(np.arange(n))

    def from_zero(self, target: float) -> None:
        """Solve to a violation of `target`; the residual of all points is up to date then."""
        it, n = self.iterate, len(self.iterate)
        sizes = [n]
        while sizes[0] // _GROWTH >= _FIRST_SUBSET and not self.in_S.any():
            sizes.insert(0, sizes[0] // _GROWTH)
        order = self.rng.permutation(n)
        loose = max(target, _LOOSE * it.scale)
        if not self.in_S.any():
            self.add(order[: sizes[0]])
        self.descent.solve(target if len(sizes) == 1 else loose)
        for size in sizes[1:]:
            self.drop_idle()
            points = order[:size]
            out = points[~self.in_S[points]]
            it.residual[out] = it.z[out]
            it.update(out, np.zeros(n))
            self.level(out, loose, target if size == n else None)
            if it.budget.exhausted():
                return

    def from_here(self, target: float) -> None:
        """The same from an iterate whose residual is up to date."""
        it = self.iterate
        held = it.resistance()
        wanted = (it.beta != 0.0) & (held < _IDLE * it.scale) | (held < -target)
        self.add(np.flatnonzero(wanted & ~self.in_S))
        if self.in_S.all():
            self.descent.solve(target)
            return
        violation = max(0.0, -float(held.min()))
        loose = max(target, min(_LOOSE * it.scale, 0.1 * violation))
        self.level(np.flatnonzero(~self.in_S), loose, target)

    def level(self, out: np.ndarray, loose: float, target: float | None) -> None:
        """Solve over S and `out`, whose residuals are up to date.

        `target` None is a level that is left at `loose`; else all points are brought to it.
        """
        it, descent = self.iterate, self.descent
        far = it.resistance(out) >= _FAR * it.scale
        near, far = out[~far], out[far]
        far_beta = it.beta.copy()
        tolerance = loose
        self.solve(tolerance, near)
        while not it.budget.exhausted():
            held = it.resistance(near)
            worst = max(0.0, -held.min(initial=0.0))
            if worst > tolerance:
                violators = near[held < -tolerance]
                room = max(_FIRST_SUBSET, len(descent.active))
                if len(violators) > room:
                    violators = violators[np.argpartition(it.resistance(violators), room)[:room]]
                near = np.concatenate([near, self.drop_idle(_DROP_SHARE)])
                self.add(violators)
                near = near[~self.in_S[near]]
                relaxed = max(tolerance, 0.1 * worst)
                self.solve(relaxed, near)
                if relaxed > tolerance and it.resistance(near).min(initial=0.0) >= -tolerance:
                    self.solve(tolerance, near)
                continue
            if target is None:
                return
            it.update(far, far_beta)
            far_beta = it.beta.copy()
            final = tolerance <= target
            held = it.resistance(far)
            back = held < (-target if final else _APPROACHED * it.scale)
            near, far = np.concatenate([near, far[back]]), far[~back]
            if final and not back.any():
                return
            if not final:
                tolerance = target if _TIGHTEN * tolerance < 2.0 * target else _TIGHTEN * tolerance
                self.solve(tolerance, near)

    def solve(self, tolerance: float, near: np.ndarray) -> None:
        before = self.iterate.beta.copy()
        self.descent.solve(tolerance)
        self.iterate.update(near, before)

    def add(self, points: np.ndarray) -> None:
        self.in_S[points] = True
        self.descent.extend(points)

    def drop_idle(self, least_share: float = 0.0) -> np.ndarray:
        """Drop from S who is firmly held, if that is more than a share of S; who was dropped."""
        S = self.descent.active
        idle = self.iterate.resistance(S) > _IDLE * self.iterate.scale
        idle &= self.drops[S] < _DROPS
        if not idle.any() or idle.mean() <= least_share:
            return S[:0]
        dropped = S[idle]
        self.drops[dropped] += 1
        self.in_S[dropped] = False
        self.descent.activate(S[~idle])
        return dropped
