"""Support vector classifier, with or without intercept, solved exactly."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import joblib
import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from kbench.kernels import Kernel
from kbench.methods._box_svc import BoxSVC, Problem, Start, solve_problems
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.solvers import BoxDualResult
from kbench.trace import Trace

# Errors up to here are those of points far from their margin, and no obstacle at any tolerance.
_MENDED = 1e-4


class _LastFit(NamedTuple):
    kernel: Kernel
    rows_key: str  # hash of X
    Y: np.ndarray
    C: np.ndarray
    results: list[BoxDualResult]


class KernelSVC(BoxSVC):
    """C-support vector classifier.

    Minimises 1/2 ||f||^2 + sum_i C_i max(0, 1 - y_i (f(x_i) + b)) over the kernel's function space
    and, with `fit_intercept`, over b, through its dual

        min_a  1/2 a'Qa - e'a,   0 <= a_i <= C_i  [, y'a = 0],   Q_ij = y_i y_j k(x_i, x_j).

    With the intercept this is the problem of `sklearn.svm.SVC`, whose parameters have the same
    meaning here; without, it has no equality constraint and is the problem of the DC-SVM papers.

    Parameters
    ----------
    C : float, default=1.0
        Upper bound of the dual variables, multiplied by the weights of row and class.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable, default="rbf"
        "laplacian" is exp(-gamma ||x - z||_1), "poly" (gamma <x, z> + coef0)^degree.
    gamma : float or {"scale", "auto"}, default="scale"
        "scale" is 1 / (d Var(X)), "auto" 1 / d.
    degree : int, default=3
    coef0 : float, default=0.0
    fit_intercept : bool, default=True
    multi_class : {"ovr", "ovo"}, default="ovr"
        Several classes: each against the rest, or each against each (as SVC has it; `predict` then
        decides equal votes by confidence, as SVC with `break_ties=True`).
    tol : float, default=1e-3
        Violation of the dual's optimality at which to stop, LIBSVM's criterion, true to float64.
    cache_mb : float, default=1000.0
        MiB for kernel rows, at most; taken as it is needed.
    class_weight : dict, "balanced" or None, default=None
    max_iter : int, default=-1
        Limit on steps of each binary problem; -1 is none.
    max_time : float or None, default=None
        Limit on the seconds spent in the solver.
    dtype : {"float32", "float64"}, default="float32"
        Precision of stored kernel rows and of prediction. Gradient, objective and stopping test are
        float64 in either case.
    shrinking : bool, default=True
        Whether points that matter little are set aside on the way.
    split : bool, default=True
        Whether groups of points so far apart that the kernel between them cannot be seen at `tol`
        are solved apart.
    warm_start : bool, default=False
        Whether `fit` begins at the solution of the last one, where that had the same classes in the
        same rows with the same weights: for less time the same machine, to `tol`. With the same X
        and kernel, and a bound not many times larger, the start costs no kernel values.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
        Rows with a coefficient that is not zero (in one of the problems).
    dual_coef_ : (m, n_sv)
        y_i a_i of each of the m problems: 1 for two classes, else n_classes ("ovr") or
        n_classes (n_classes - 1) / 2 ("ovo": classes 0 and 1, 0 and 2, ..., the first positive).
    intercept_ : (m,)
    n_support_ : (n_classes,) ints
        Support vectors of each class.
    n_iter_ : int
        Steps of one or two coordinates, over all problems.
    objective_, duality_gap_ : float
        Value of the dual, and by how much the primal is above it at most; sums over problems.
    violation_ : float
        Largest of the problems' violations.
    converged_ : bool
    kernel_entries_ : int
        Kernel values computed in `fit`.
    timings_ : dict of str to float
        Seconds of "prepare" and "solve".
    model_bytes_ : int
        What prediction keeps.
    n_features_in_ : int

    See Also
    --------
    DCSVC : Trains and predicts by clusters; approximate, and faster.

    Notes
    -----
    Time is O(d) for each kernel value, of which there are about n for every support vector and some
    more among points that matter; memory `cache_mb` and O(n d). Prediction costs O(n_sv d) a row.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
    Machines", ICML 2014.

    Examples
    --------
    `KernelSVC` where `SVC` was:

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from kbench.methods import KernelSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = make_pipeline(MinMaxScaler(), KernelSVC())
    >>> grid = {"kernelsvc__C": [1.0, 10.0], "kernelsvc__gamma": ["scale", 0.1]}
    >>> search = GridSearchCV(machine, grid, cv=3).fit(X[:1000], y[:1000])
    >>> search.score(X[1000:], y[1000:]) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **BoxSVC._parameter_constraints,
        "fit_intercept": ["boolean"],
        "multi_class": [StrOptions({"ovr", "ovo"})],
        "split": ["boolean"],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        multi_class: str = "ovr",
        tol: float = 1e-3,
        cache_mb: float = 1000.0,
        class_weight: dict | str | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        dtype: str = "float32",
        shrinking: bool = True,
        split: bool = True,
        warm_start: bool = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.tol = tol
        self.cache_mb = cache_mb
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.dtype = dtype
        self.shrinking = shrinking
        self.split = split
        self.warm_start = warm_start

    @property
    def _one_vs_one(self) -> bool:
        return self.multi_class == "ovo"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Solve the dual.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row; a weight of 2 is the row twice, 0 the row left out.
        trace : Trace, optional
            Told the iterate after each working set, and the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, fewer than two classes, a precomputed matrix not square.
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            problem = self._problem(X, y, sample_weight)
            key = joblib.hash(problem.X) if self.warm_start else ""
        with trace.phase("solve"):
            results = solve_problems(
                problem.kernel,
                problem.Y,
                problem.C,
                self._start(problem, key),
                max_time=self.max_time,
                trace=trace,
                intercept=self.fit_intercept,
                split=self.split,
                **self._solver_options(),
            )
            alpha = np.column_stack([result.alpha for result in results])
        with trace.phase("prepare"):
            self._finish(problem, alpha, results, [result.intercept for result in results])
            coef = self.dual_coef_.T
            dtype = prediction_dtype(problem.kernel, coef)
            self._machine = KernelExpansion(problem.kernel, self.support_, coef, dtype)
        self.kernel_entries_ = problem.kernel.n_entries
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        self._last: _LastFit | None = None
        if self.warm_start:
            self._last = _LastFit(problem.kernel.kernel, key, problem.Y, problem.C, results)
        return self

    def _start(self, problem: Problem, key: str) -> Start | None:
        """Feasible dual variables out of those of the last fit.

        Times the ratio of the bounds they keep y'a = 0, and stay at the bound where they were.
        """
        last = getattr(self, "_last", None)
        if not self.warm_start or last is None or not np.array_equal(last.Y, problem.Y):
            return None
        ratio = float(problem.C.max() / last.C.max())
        if not np.allclose(problem.C, last.C * ratio, rtol=1e-12, atol=0.0):
            return None
        alpha = np.column_stack([result.alpha for result in last.results])
        alpha = np.minimum(alpha * ratio, problem.C[:, None])
        if problem.kernel.kernel != last.kernel or key != last.rows_key:
            return Start(alpha)
        error = ratio * max(result.gradient_error for result in last.results)
        if error > max(self.tol, _MENDED):
            # To mend it in float64 takes longer than to begin again in float32.
            return Start(alpha)
        # Qa - e, of which Qa grows with a.
        gradient = np.column_stack([result.gradient for result in last.results])
        return Start(alpha, ratio * (gradient + 1.0) - 1.0, error)
