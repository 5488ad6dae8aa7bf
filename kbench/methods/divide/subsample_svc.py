"""Exact support vector classifier of a random sample of the rows.

The baseline "LIBSVM (subsample)" of Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel
Support Vector Machines" (ICML 2014), Table 2.
"""

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state

from kbench.methods.base.box_svc import KernelProblems
from kbench.methods.base.dual_svc import DualFit, DualSVC, n_steps
from kbench.methods.base.parts import Part, solve_parts
from kbench.trace import Deadline, Trace
from kbench.validated import real, usual


@dataclass(eq=False, repr=False)
class SubsampleSVC(DualSVC):
    """`KernelSVC` without intercept on a fraction of the rows, drawn without replacement.

    It is the simplest way to save training time, and a baseline for other methods.

    Parameters
    ----------
    fraction : float, default=0.2
        Fraction of the rows; their number is rounded up. Set by hand.
    C, kernel, gamma, degree, coef0, tol, cache_mb, class_weight, probability, \
max_iter, max_time, dtype, \
shrinking
        As in `KernelSVC`, which calls `cache_mb` `cache_size`;
        `max_iter` limits each binary problem.
    random_state : int, RandomState or None, default=None
        Seed of the sample.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
    n_support_ : (n_classes,) ints
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, for the rows of the sample.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare" and "solve".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    The cost is that of the exact model of `fraction` n rows. With few rows the model can be less
    accurate than a linear model of all rows (4,000 rows of covtype: 68 % against 74 %; the table of
    defaults in docs/tuned.md).

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
    Machines", ICML 2014, Table 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import SubsampleSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SubsampleSVC(0.2, C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    fraction: float = 0.2
    _: KW_ONLY
    shrinking: bool = True

    _parameter_constraints: ClassVar[dict] = {
        **DualSVC._parameter_constraints,
        "fraction": [real(0, 1, closed="right")],
        **usual("shrinking"),
    }

    def _train(self, problem: KernelProblems, deadline: Deadline, trace: Trace) -> DualFit:
        n = len(problem.Y)
        with trace.phase("prepare"):
            rng = check_random_state(self.random_state)
            rows = np.sort(rng.choice(n, math.ceil(self.fraction * n), replace=False))
        with trace.phase("solve"):
            parts = solve_parts(
                problem, [Part.zero(problem, rows)], deadline=deadline, **self._solver_options()
            )
        return DualFit(parts, n_steps(parts))
