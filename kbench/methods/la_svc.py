"""LaSVM: a support vector classifier trained online that visits each row once.

Bordes, Ertekin, Weston and Bottou, "Fast Kernel Classifiers with Online and Active Learning" (JMLR
6, 2005), section 3; the iteration is in `kbench.solvers.lasvm`.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from kbench.methods._box_svc import Problem
from kbench.methods._dual_svc import DualSVC, Trained
from kbench.methods._parts import Part
from kbench.solvers.lasvm import solve_online
from kbench.trace import Deadline, Trace


@dataclass(eq=False, repr=False)
class LaSVC(DualSVC):
    """Kernel machine that visits the rows one by one, then solves the dual on its expansion.

    Each visit is followed by a step on the most violating pair of the expansion or, without
    intercept, on its most violating coordinate. More passes come closer to the exact machine: a row
    that was removed from the expansion can return in the next pass only.

    Parameters
    ----------
    epochs : int, default=1
        Passes over the rows, each in a new random order.
    fit_intercept : bool, default=False
        Whether the decision function has an intercept, which adds the constraint y'alpha = 0.
    tol : float, default=1e-3
        KKT violation on the expansion below which no step is made, and tolerance of the final
        solve.
    C, kernel, gamma, degree, coef0, cache_mb, class_weight, probability, \
max_iter, max_time, dtype
        As in `KernelSVC`, which calls `cache_mb` `cache_size`;
        `max_iter` limits the steps of each binary problem.
    random_state : int, RandomState or None, default=None
        Seed of the order of the rows.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
    intercept_ : (1,) or (n_classes,)
    n_support_ : (n_classes,) ints
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, for the rows of the expansion.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare" and "solve".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    O(n n_sv d) time for each pass; `cache_mb` and O(n d) memory. Several classes are one-vs-rest
    problems, each with its own order and expansion. `fit` reports n_support and n_visited to the
    trace as rows are visited.

    References
    ----------
    A. Bordes, S. Ertekin, J. Weston, L. Bottou, "Fast Kernel Classifiers with Online and Active
    Learning", JMLR 6, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import LaSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LaSVC(C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    epochs: int = 1
    _: KW_ONLY
    fit_intercept: bool = False

    _parameter_constraints: ClassVar[dict] = {
        **DualSVC._parameter_constraints,
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "fit_intercept": ["boolean"],
    }

    def _train(self, problem: Problem, deadline: Deadline, trace: Trace) -> Trained:
        rng = check_random_state(self.random_state)
        with trace.phase("solve"):
            results = [
                solve_online(
                    problem.kernel,
                    column,
                    problem.C,
                    rng,
                    intercept=self.fit_intercept,
                    epochs=self.epochs,
                    tol=self._tolerance,
                    cache_mb=self.cache_mb,
                    max_iter=self.max_iter,
                    max_time=deadline.seconds_left(),
                    trace=trace,
                )
                for column in problem.Y.T
            ]
        alpha = np.column_stack([result.alpha for result in results])
        return Trained(
            [Part(np.arange(len(alpha)), alpha, results)],
            sum(result.n_iter for result in results),
            intercept=[result.intercept for result in results],
        )
