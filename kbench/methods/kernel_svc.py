"""Support vector classifier without intercept, solved exactly."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context

from kbench.methods._box_svc import BoxSVC, solve_problems
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Trace


class KernelSVC(BoxSVC):
    """C-support vector classifier without intercept.

    Minimises 1/2 ||f||^2 + sum_i C_i max(0, 1 - y_i f(x_i)) over the kernel's function space,
    through its dual

        min_a  1/2 a'Qa - e'a,   0 <= a_i <= C_i,   Q_ij = y_i y_j k(x_i, x_j),

    the problem of the DC-SVM papers. Parameters mean what they mean in `sklearn.svm.SVC`; without
    the intercept the dual has no equality constraint. Several classes are taken one-vs-rest.

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
    tol : float, default=1e-3
        Largest projected gradient of the dual at which to stop, true to float64.
    cache_mb : float, default=200.0
        MiB for kernel rows.
    class_weight : dict, "balanced" or None, default=None
    max_iter : int, default=-1
        Limit on coordinate steps of each binary problem; -1 is none.
    max_time : float or None, default=None
        Limit on the seconds spent in the solver.
    dtype : {"float32", "float64"}, default="float32"
        Precision of stored kernel rows and of prediction. Gradient, objective and stopping test are
        float64 in either case.
    shrinking : bool, default=True

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
        Rows with a coefficient that is not zero (in one of the problems).
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
        y_i a_i.
    n_support_ : (n_classes,) ints
        Support vectors of each class.
    n_iter_ : int
        Coordinate steps, over all problems.
    objective_, violation_ : float
        Value of the dual (sum over problems) and its largest projected gradient.
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
    Time is O(d) for each kernel value, of which there are n for every row that becomes active;
    memory `cache_mb` and O(n d). Prediction costs O(n_sv d) a row.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
    Machines", ICML 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kbench.methods import KernelSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelSVC(C=10.0, gamma=0.5).fit(X, y)
    >>> model.score(X, y) > 0.97
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
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
    ) -> None:
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
        with trace.phase("solve"):
            results = solve_problems(
                problem.kernel,
                problem.Y,
                problem.C,
                max_time=self.max_time,
                trace=trace,
                **self._solver_options(),
            )
            alpha = np.column_stack([result.alpha for result in results])
        with trace.phase("prepare"):
            self._finish(problem, alpha, results)
            coef = self.dual_coef_.T
            dtype = prediction_dtype(problem.kernel, coef)
            self._machine = KernelExpansion(problem.kernel, self.support_, coef, dtype)
        self.kernel_entries_ = problem.kernel.n_entries
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        return self
