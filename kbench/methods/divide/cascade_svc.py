"""Cascade SVM: support vectors of random parts of the rows, merged two by two.

Graf, Cosatto, Bottou, Durdanovic and Vapnik, "Parallel Support Vector Machines: The Cascade SVM"
(NIPS 2005), section 2: the binary cascade of their Figure 1 and its feedback loop.
"""

import itertools
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state

from kbench.methods.base.box_svc import KernelProblems
from kbench.methods.base.dual_svc import DualFit, DualSVC, clipped_count, n_steps
from kbench.methods.base.parts import Part, solve_parts
from kbench.trace import Deadline, Trace
from kbench.validated import integer, usual


@dataclass(eq=False, repr=False)
class CascadeSVC(DualSVC):
    """Kernel model of the support vectors that remain after a cascade of merges.

        1. divide the rows at random into `n_parts` parts of equal size, with alpha = 0;
        2. solve the dual of each part, starting from its alpha; keep the rows with alpha_i > 0;
        3. merge the parts two by two and repeat 2., until one part is left;
        4. at most `feedback` times: add the support vectors to each part of 1. that contains a
           row which violates the KKT conditions, and go to 2. with these parts.

    A support vector of the whole problem that a part discards returns by feedback only. If most
    support vectors are at their bound (a9a: 96 %), the merged sets lack many free support vectors,
    which costs several percentage points of accuracy; one round of feedback recovers them.

    Parameters
    ----------
    n_parts : int, default=32
        At most the number of rows; a larger number is reduced with a warning. Set by hand.
    feedback : int, default=0
        Maximal number of further rounds, which end when no row violates the KKT conditions by more
        than `tol`: the solution is then that of the whole problem.
    C, kernel, gamma, degree, coef0, tol, cache_mb, class_weight, probability, \
max_iter, max_time, dtype, \
shrinking
        As in `KernelSVC`, which calls `cache_mb` `cache_size`;
        `max_iter` limits each binary problem of each part.
    random_state : int, RandomState or None, default=None
        Seed of the division into parts.
    n_jobs : int or None, default=None
        Number of parts solved in parallel through joblib; None is 1 unless a joblib backend sets
        another number. The result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
    n_support_ : (n_classes,) ints
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, for the rows of the last merge; `n_iter_` is the sum over all parts.
    n_rounds_ : int
        Number of cascades, including the first one.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare" and "train".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    The cost is that of exact models of n / n_parts rows and of the merged support vectors; the last
    merges dominate if there are many support vectors. A round of feedback computes n n_sv float64
    kernel values to find the violating rows, and solves each part with such rows together with all
    n_sv support vectors. Several classes use the same parts: a row is kept while it is a support
    vector of at least one of the one-vs-rest problems. `fit` reports alpha (n, m), n_parts and
    n_support to the trace after each layer.

    References
    ----------
    H. P. Graf, E. Cosatto, L. Bottou, I. Durdanovic, V. Vapnik, "Parallel Support Vector Machines:
    The Cascade SVM", NIPS 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import CascadeSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CascadeSVC(8, C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    n_parts: int = 32
    _: KW_ONLY
    feedback: int = 0
    shrinking: bool = True
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict] = {
        **DualSVC._parameter_constraints,
        "n_parts": [integer(1)],
        "feedback": [integer(0)],
        **usual("n_jobs", "shrinking"),
    }

    def _train(self, problem: KernelProblems, deadline: Deadline, trace: Trace) -> DualFit:
        n = len(problem.Y)
        n_parts = clipped_count("n_parts", self.n_parts, n, n)
        order = check_random_state(self.random_state).permutation(n)
        first_layer = [np.sort(rows) for rows in np.array_split(order, n_parts)]
        union = Part.zero(problem, np.empty(0, np.intp))
        n_iter = self.n_rounds_ = 0
        with trace.phase("train"):
            for _ in range(1 + self.feedback):
                rows_of_parts = first_layer
                if self.n_rounds_:
                    violating = _violating_rows(problem, union, self._tolerance)
                    rows_of_parts = [rows for rows in first_layer if violating[rows].any()]
                if not rows_of_parts:
                    break
                layer = [_merge(union, Part.zero(problem, rows)) for rows in rows_of_parts]
                layer, steps = self._solve_layer(problem, layer, deadline, trace)
                if self.n_rounds_ and steps == 0:
                    # A limit was reached, or the solver of a part cannot resolve the violations.
                    break
                n_iter += steps
                self.n_rounds_ += 1
                while len(layer) > 1:
                    pairs = itertools.zip_longest(layer[::2], layer[1::2])
                    merged = [
                        left if right is None else _merge(left, right) for left, right in pairs
                    ]
                    layer, steps = self._solve_layer(problem, merged, deadline, trace)
                    n_iter += steps
                union = layer[0]
        return DualFit([union], n_iter)

    def _solve_layer(
        self, problem: KernelProblems, parts: list[Part], deadline: Deadline, trace: Trace
    ) -> tuple[list[Part], int]:
        """The solved parts, reduced to their support vectors, and the number of steps."""
        # A part has no rows only if the time limit was reached in the first layer.
        solved_parts = solve_parts(
            problem,
            [part for part in parts if len(part.rows)],
            deadline=deadline,
            n_jobs=self.n_jobs,
            **self._solver_options(),
        )
        reduced_parts = [part.support for part in solved_parts] or parts
        if trace.active:
            alpha = _dual_of_all_rows(problem, reduced_parts)
            n_support = int(np.count_nonzero(alpha.any(axis=1)))
            trace(alpha=alpha, n_parts=len(reduced_parts), n_support=n_support)
        return reduced_parts, n_steps(solved_parts)


def _violating_rows(problem: KernelProblems, part: Part, tol: float) -> np.ndarray:
    """Which rows violate the KKT conditions of the part's model by more than tol; (n,) bool."""
    alpha = _dual_of_all_rows(problem, [part])
    kernel = problem.kernel.astype(np.float64)
    values = kernel.product(part.rows, (alpha * problem.Y)[part.rows])
    if kernel is not problem.kernel:
        problem.kernel.count(len(alpha) * len(part.rows))
    gradient = problem.Y * values - 1.0
    C = problem.C[:, None]
    violation = np.where(alpha < C, -gradient, -np.inf)
    violation = np.maximum(violation, np.where(alpha > 0.0, gradient, -np.inf))
    return np.any(violation > tol, axis=1)


def _merge(left: Part, right: Part) -> Part:
    """The union of the rows; a row of both parts has the larger of its two dual variables."""
    rows = np.union1d(left.rows, right.rows)
    alpha = np.zeros((len(rows), right.alpha.shape[1]))
    for part in (left, right):
        positions = np.searchsorted(rows, part.rows)
        alpha[positions] = np.maximum(alpha[positions], part.alpha)
    return Part(rows, alpha, (*left.results, *right.results))


def _dual_of_all_rows(problem: KernelProblems, parts: list[Part]) -> np.ndarray:
    """Dual variables of all rows, 0 for rows outside the parts; (n, m)."""
    alpha = np.zeros_like(problem.Y)
    for part in parts:
        alpha[part.rows] = np.maximum(alpha[part.rows], part.alpha)
    return alpha
