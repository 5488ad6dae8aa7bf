"""Support vector machine on approximate extreme points of the rows (AESVM).

Nandan, Khargonekar and Talathi, "Fast SVM Training Using Approximate Extreme Points" (JMLR 15,
2014), Algorithms 1 to 3.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from kbench.approximation.expansions.representative_set import representative_set
from kbench.kernels.constraints import KernelParameters, kernel_constraints
from kbench.methods.base.box_svc import BoxClassifier, KernelProblems, solve_problems
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Deadline, Trace
from kbench.validated import choice, integer, real


@dataclass(eq=False, repr=False)
class AESVC(KernelParameters, BoxClassifier):
    """C-support vector classifier on approximate extreme points (AESVM), with intercept.

        1. choose representatives x_t of each class such that every row is within a squared
           distance `eps` of a convex combination of them in the feature space of the kernel
           (`kbench.approximation.expansions.representative_set`);
        2. solve the dual of the representatives with upper bounds C beta_t; beta_t is the total
           weight of the rows that x_t represents, and all beta_t sum to n.

    More than two classes are one-vs-rest, on the same representatives.

    Parameters
    ----------
    eps : float, default=0.01
        Squared distance that is neglected; with a negative value, all rows are representatives. A
        larger value leaves fewer representatives, which represent the rows less exactly.
    first_level : {"fls2", "fls1"}, default="fls2"
        How rows are first divided into sets: "fls2" bisects recursively at the median kernel
        distance from a row, "fls1" takes the rows in order.
    first_size : int, default=100000
        Largest number P of rows of such a set. Like `eps` and `second_size`, set by hand.
    second_size : int, default=1000
        Largest number V of rows of a subset of neighbours, in which extreme points are computed.
    C : float or "loo", default=1.0
    kernel, gamma, degree, coef0
        As in `KernelSVC`; a positive semidefinite kernel, one gamma for all features.
    tol : float, default=1e-3
    cache_mb : float, default=1000.0
    class_weight, probability
        As in `KernelSVC`.
    max_iter : int, default=-1
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
    random_state : int, RandomState or None, default=None
        Seed of the folds for `probability`. `C`, `tol`, `cache_mb` (which `KernelSVC` calls
        `cache_size`), `max_iter`, `max_time` and `dtype` have the same meaning as in `KernelSVC`.

    Attributes
    ----------
    classes_ : (n_classes,)
    representatives_ : (M,) ints
        Indices of the representatives.
    beta_ : (M,)
        Total weight of the rows that each representative represents.
    residuals_ : (n,)
        Squared distance of each row from its combination, at most `eps`.
    support_, dual_coef_, intercept_, n_support_, n_iter_, objective_, duality_gap_, violation_, \
converged_, kernel_entries_, model_bytes_, n_features_in_
        As in `KernelSVC`, for the model of the representatives.
    timings_ : dict of str to float
        Seconds of "prepare", "select" (the representatives) and "solve".

    Notes
    -----
    O(n V) kernel values and O(n V s) time for the selection with s extreme points in a subset, and
    then an exact model of M rows. M grows with gamma. Prediction costs O(n_sv d) a row. `fit`
    reports the iterates of the solver to the trace.

    References
    ----------
    M. Nandan, P. P. Khargonekar, S. S. Talathi, "Fast SVM Training Using Approximate Extreme
    Points", JMLR 15, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import AESVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AESVC(0.1, C=10.0, gamma=1e-3).fit(X[:1000], y[:1000])
    >>> len(model.representatives_) < 1000, model.score(X[1000:], y[1000:]) > 0.9
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **BoxClassifier._parameter_constraints,
        **kernel_constraints("of_rows", "positive_semidefinite", function=True),
        "eps": [real(None, None, closed="neither")],
        "first_level": [choice("fls2", "fls1")],
        "first_size": [integer(1)],
        "second_size": [integer(1)],
    }

    eps: float = 0.01
    _: KW_ONLY
    first_level: str = "fls2"
    first_size: int = 100_000
    second_size: int = 1000

    def _train(self, problem: KernelProblems, deadline: Deadline, trace: Trace) -> None:
        with trace.phase("prepare"):
            squares = problem.X.multiply(problem.X) if sp.issparse(problem.X) else problem.X**2
            squared_norms = np.asarray(squares.sum(axis=1), np.float64).ravel()
        with trace.phase("select"):
            representatives = representative_set(
                problem.kernel,
                squared_norms,
                problem.labels,
                problem.C,
                eps=self.eps,
                first_level=self.first_level,
                first_size=self.first_size,
                second_size=self.second_size,
            )
        rows = representatives.members
        with trace.phase("solve"):
            kernel = problem.kernel.take(rows)
            results = solve_problems(
                kernel,
                problem.Y[rows],
                representatives.weights,
                trace=trace,
                intercept=True,
                tol=self.tol,
                cache_mb=self.cache_mb,
                max_iter=self.max_iter,
                max_time=deadline.seconds_left(),
            )
            problem.kernel.count(kernel.n_entries)
        with trace.phase("prepare"):
            alpha = np.zeros(problem.Y.shape)
            alpha[rows] = np.column_stack([result.alpha for result in results])
            self._finish(problem, alpha, results, [result.intercept for result in results])
            coef = self.dual_coef_.T
            dtype = prediction_dtype(problem.kernel, coef)
            self._machine = KernelExpansion(problem.kernel, self.support_, coef, dtype)
        self.representatives_ = rows
        self.beta_ = representatives.weights / self.C_
        self.residuals_ = representatives.residuals
        self.kernel_entries_ = problem.kernel.n_entries
