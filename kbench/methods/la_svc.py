"""LaSVM: support vector classifier learnt online, one visit to each row (Bordes et al., 2005)."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from kbench.methods._box_svc import BoxSVC
from kbench.methods._parts import Deadline
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.solvers.lasvm import solve_online
from kbench.trace import Trace


class LaSVC(BoxSVC):
    """Kernel machine that visits the rows one by one and then finishes on those it has kept.

    Each visit is followed by a step on the pair (or, without intercept, the coordinate) of the
    expansion that violates most; see `kbench.solvers.lasvm`. More passes come closer to the exact
    machine: a row that left the expansion can return in the next pass only.

    Parameters
    ----------
    epochs : int, default=1
        Passes over the rows, in random order.
    fit_intercept : bool, default=False
        Whether the decision has an intercept, the dual the constraint y'a = 0.
    C : float, default=1.0
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
        Violation on the expansion at which steps, and at last the finishing, stop.
    cache_mb : float, default=200.0
    class_weight : dict, "balanced" or None, default=None
    max_iter : int, default=-1
        Steps of each binary problem.
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
        From `C` on as in `KernelSVC`.
    random_state : int, RandomState or None, default=None
        Of the order of the rows.

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
    O(n n_sv d) for each pass. Memory: `cache_mb`, O(n d). Several classes are one-vs-rest, each
    with its own order and expansion.

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

    _parameter_constraints: ClassVar[dict] = {
        **BoxSVC._parameter_constraints,
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "fit_intercept": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        epochs: int = 1,
        *,
        fit_intercept: bool = False,
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
        random_state: Any = None,
    ) -> None:
        self.epochs = epochs
        self.fit_intercept = fit_intercept
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
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Visit the rows and finish.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row.
        trace : Trace, optional
            Told n_support and n_visited as rows are visited, and the phases.

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
        rng = check_random_state(self.random_state)
        with trace.phase("solve"):
            results: list[Any] = [
                solve_online(
                    problem.kernel,
                    column,
                    problem.C,
                    rng,
                    intercept=self.fit_intercept,
                    epochs=self.epochs,
                    tol=self.tol,
                    cache_mb=self.cache_mb,
                    max_iter=self.max_iter,
                    max_time=deadline.seconds_left(),
                    trace=trace,
                )
                for column in problem.Y.T
            ]
        with trace.phase("prepare"):
            alpha = np.column_stack([result.alpha for result in results])
            self._finish(problem, alpha, results, [result.intercept for result in results])
            coef = self.dual_coef_.T
            dtype = prediction_dtype(problem.kernel, coef)
            self._machine = KernelExpansion(problem.kernel, self.support_, coef, dtype)
        self.kernel_entries_ = problem.kernel.n_entries
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        return self
