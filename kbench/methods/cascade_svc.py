"""Cascade SVM: support vectors of random parts, merged two by two (Graf et al., 2005)."""

import itertools
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from kbench.methods._box_svc import BoxSVC, Problem
from kbench.methods._parts import Part, solve_parts
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Deadline, Trace


class CascadeSVC(BoxSVC):
    """Kernel machine of the support vectors that survive a cascade of merges.

        1. split the rows at random into `n_parts` parts;
        2. solve the dual of each part from the a at hand; keep the rows with a_i > 0;
        3. merge the parts two by two and go to 2., until one is left;
        4. `feedback` times: add the support vectors to each part of 1. in which a row violates
           optimality, go to 2. with these parts.

    A support vector of the whole problem that is lost in a part comes back by feedback only. Where
    most support vectors are at their bound (a9a: 96 %) the merged sets hold little else, and the
    few that are missing cost several points of accuracy; one round of feedback brings them back.

    Parameters
    ----------
    n_parts : int, default=32
    feedback : int, default=0
        Bound on the further rounds; they end when no row violates optimality by more than `tol`:
        the solution is then that of the whole problem.
    C : float, default=1.0
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
    cache_mb : float, default=200.0
    class_weight : dict, "balanced" or None, default=None
    max_iter : int, default=-1
        Of each binary problem of each part.
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
    shrinking : bool, default=True
        From `C` on as in `KernelSVC`.
    random_state : int, RandomState or None, default=None
        Of the parts.
    n_jobs : int or None, default=None
        Parts solved at once, through joblib; None is 1 (unless a joblib backend says other). The
        result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
    n_support_ : (n_classes,) ints
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, for the rows of the last merge (n_iter_ over all parts).
    n_rounds_ : int
        Cascades that were run, the first one included.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare" and "train".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    The price of exact machines of n / n_parts rows and of the merged support vectors; the last
    merges dominate where there are many. A round of feedback costs n n_sv float64 kernel values to
    find the violators, and machines of all n_sv support vectors for every part with some. Several
    classes share the parts: a row is kept while it supports any of the one-vs-rest problems.

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

    _parameter_constraints: ClassVar[dict] = {
        **BoxSVC._parameter_constraints,
        "n_parts": [Interval(Integral, 1, None, closed="left")],
        "feedback": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_parts: int = 32,
        *,
        feedback: int = 0,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        cache_mb: float = 200.0,
        class_weight: dict | str | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        dtype: str = "float32",
        shrinking: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_parts = n_parts
        self.feedback = feedback
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.cache_mb = cache_mb
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.dtype = dtype
        self.shrinking = shrinking
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Run the cascade.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row.
        trace : Trace, optional
            Told `alpha` (n, m) and `n_parts` after each layer, and the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            More parts than rows, and what `KernelSVC` refuses.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        with trace.phase("prepare"):
            problem = self._problem(X, y, sample_weight)
            n = len(problem.Y)
            if self.n_parts > n:
                raise ValueError(f"n_parts={self.n_parts} is more than the {n} training points")
        order = check_random_state(self.random_state).permutation(n)
        shares = [np.sort(share) for share in np.array_split(order, self.n_parts)]
        whole = Part(np.empty(0, np.intp), np.empty((0, problem.Y.shape[1])))
        self.n_iter_ = self.n_rounds_ = 0
        with trace.phase("train"):
            for _ in range(1 + self.feedback):
                open_shares = shares
                if self.n_rounds_:
                    violates = _violates(problem, whole, self.tol)
                    open_shares = [share for share in shares if violates[share].any()]
                if not open_shares:
                    break
                before = self.n_iter_
                layer = [_merge(whole, _from_zero(problem, share)) for share in open_shares]
                layer = self._layer(problem, layer, deadline, trace)
                if self.n_rounds_ and self.n_iter_ == before:
                    # A limit, or violations below what a part's solver can see.
                    break
                self.n_rounds_ += 1
                while len(layer) > 1:
                    pairs = itertools.zip_longest(layer[::2], layer[1::2])
                    merged = [
                        left if right is None else _merge(left, right) for left, right in pairs
                    ]
                    layer = self._layer(problem, merged, deadline, trace)
                whole = layer[0]
        with trace.phase("prepare"):
            self._finish(problem, _everywhere(problem, [whole]), whole.results)
            coef = self.dual_coef_.T
            dtype = prediction_dtype(problem.kernel, coef)
            self._machine = KernelExpansion(problem.kernel, self.support_, coef, dtype)
        self.kernel_entries_ = problem.kernel.n_entries
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        return self

    def _layer(
        self, problem: Problem, parts: list[Part], deadline: Deadline, trace: Trace
    ) -> list[Part]:
        """The parts' solutions, reduced to their support vectors."""
        # Parts are empty only where time ran out before anything was learnt.
        busy = [part for part in parts if len(part.rows)]
        solved = solve_parts(
            problem, busy, deadline=deadline, n_jobs=self.n_jobs, **self._solver_options()
        )
        self.n_iter_ += sum(result.n_iter for part in solved for result in part.results)
        kept = [part.support for part in solved] or parts
        if trace.active:
            alpha = _everywhere(problem, kept)
            n_support = int(np.count_nonzero(alpha.any(axis=1)))
            trace(alpha=alpha, n_parts=len(kept), n_support=n_support)
        return kept


def _violates(problem: Problem, part: Part, tol: float) -> np.ndarray:
    """Which rows miss optimality by more than tol in the part's machine : (n,) bool."""
    alpha = _everywhere(problem, [part])
    kernel = problem.kernel.astype(np.float64)
    values = kernel.product(part.rows, (alpha * problem.Y)[part.rows])
    if kernel is not problem.kernel:
        problem.kernel.count(len(alpha) * len(part.rows))
    gradient = problem.Y * values - 1.0
    C = problem.C[:, None]
    violation = np.where(alpha < C, -gradient, -np.inf)
    violation = np.maximum(violation, np.where(alpha > 0.0, gradient, -np.inf))
    return np.any(violation > tol, axis=1)


def _from_zero(problem: Problem, rows: np.ndarray) -> Part:
    return Part(rows, np.zeros((len(rows), problem.Y.shape[1])))


def _merge(left: Part, right: Part) -> Part:
    """The rows of both, each with the larger of its dual variables."""
    rows = np.union1d(left.rows, right.rows)
    alpha = np.zeros((len(rows), right.alpha.shape[1]))
    for part in (left, right):
        own = np.searchsorted(rows, part.rows)
        alpha[own] = np.maximum(alpha[own], part.alpha)
    return Part(rows, alpha, (*left.results, *right.results))


def _everywhere(problem: Problem, parts: list[Part]) -> np.ndarray:
    """Dual variables of all rows, 0 for those of no part : (n, m)."""
    alpha = np.zeros_like(problem.Y)
    for part in parts:
        alpha[part.rows] = np.maximum(alpha[part.rows], part.alpha)
    return alpha
