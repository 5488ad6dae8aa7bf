"""Exact support vector classifier of a random part of the rows."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from kbench.methods._box_svc import BoxSVC
from kbench.methods._parts import Deadline, Part, solve_parts
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Trace


class SubsampleSVC(BoxSVC):
    """`KernelSVC` of a share of the rows, drawn without replacement.

    The row "LIBSVM (subsample)" of the DC-SVM paper: what a simple saving is worth.

    Parameters
    ----------
    fraction : float, default=0.2
        Share of the rows, rounded up.
    C : float, default=1.0
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
    cache_mb : float, default=200.0
    class_weight : dict, "balanced" or None, default=None
    max_iter : int, default=-1
        Of each binary problem.
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
    shrinking : bool, default=True
        From `C` on as in `KernelSVC`.
    random_state : int, RandomState or None, default=None
        Of the rows.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
    n_support_ : (n_classes,) ints
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, for the rows drawn.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare" and "solve".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    The price of the exact machine of so many rows.

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

    _parameter_constraints: ClassVar[dict] = {
        **BoxSVC._parameter_constraints,
        "fraction": [Interval(Real, 0, 1, closed="right")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        fraction: float = 0.2,
        *,
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
    ) -> None:
        self.fraction = fraction
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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Draw the rows and solve their dual.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row.
        trace : Trace, optional
            Told the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            What `KernelSVC` refuses.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        with trace.phase("prepare"):
            problem = self._problem(X, y, sample_weight)
            n, m = problem.Y.shape
            rng = check_random_state(self.random_state)
            rows = np.sort(rng.choice(n, math.ceil(self.fraction * n), replace=False))
        with trace.phase("solve"):
            (part,) = solve_parts(
                problem,
                [Part(rows, np.zeros((len(rows), m)))],
                deadline=deadline,
                **self._solver_options(),
            )
        with trace.phase("prepare"):
            alpha = np.zeros((n, m))
            alpha[part.rows] = part.alpha
            self._finish(problem, alpha, part.results)
            coef = self.dual_coef_.T
            dtype = prediction_dtype(problem.kernel, coef)
            self._machine = KernelExpansion(problem.kernel, self.support_, coef, dtype)
        self.kernel_entries_ = problem.kernel.n_entries
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        return self
