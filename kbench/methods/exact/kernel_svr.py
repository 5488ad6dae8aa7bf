"""Support vector regression with the epsilon-insensitive loss, solved exactly."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.functions.precomputed import Precomputed
from kbench.kernels.value_range import KernelRangeError
from kbench.methods.base.box_svc import BoxSVC, warn_of_limits
from kbench.methods.base.ends import require_finite
from kbench.methods.base.new_rows import checked_rows
from kbench.methods.base.training_kernel import require_dense_values, training_kernel
from kbench.methods.base.weights import checked_weights
from kbench.methods.exact.callable_kernel import TakesAnyRows, WholeRowsKernel
from kbench.methods.exact.interior import Dual, Interior
from kbench.methods.exact.small_machine import (
    interior_note,
    is_dense_gaussian,
    shared_expansion,
    small_rows,
)
from kbench.methods.exact.svc_conventions import (
    BOUND,
    NOT_FITTED,
    bounded,
    like_rows,
    read_only,
    warn_of_unbounded,
)
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import RegressionDualResult, solve_regression_dual
from kbench.solvers.interior_point.duals import InteriorResult
from kbench.solvers.small import MOST_POINTS_OF_REGRESSION, Limits, is_small, solve_each
from kbench.trace import Deadline, Trace
from kbench.validated import require_target_range


@dataclass(eq=False, repr=False)
class KernelSVR(CountedPrediction, RegressorMixin, TakesAnyRows):
    """Epsilon-support vector regression.

    Minimises 1/2 ||f||^2 + sum_i C_i max(0, |y_i - f(x_i) - b| - epsilon), the problem of
    `sklearn.svm.SVR`, whose parameters have the same meaning here, through its dual

        min_b  1/2 b'Kb - y'b + epsilon |b|_1,   |b_i| <= C_i,

    with sum b = 0 if there is an intercept.

    Parameters
    ----------
    C : float, default=1.0
        Upper bound of the dual variables, multiplied by the weight of the row; inf as in
        `KernelSVC`.
    kernel : str or callable, default="rbf"
        A kernel of `kbench.kernels.KERNELS`.
    degree : int, default=3
    gamma : float or {"scale", "auto"}, default="scale"
    coef0 : float, default=0.0
    tol : float, default=1e-3
        Violation at which to stop, in units of y.
    epsilon : float, default=0.1
        Half the width of the tube in which errors cost nothing.
    shrinking : bool, default=True
    cache_size : float, default=1000.0
    verbose : bool, default=False
    max_iter : int, default=-1
    fit_intercept : bool, default=True
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
        From `kernel` on as in `KernelSVC`, unless stated here.

    Attributes
    ----------
    support_ : (n_sv,) ints
    support_vectors_ : (n_sv, d) array or CSR
        (0, 0) with kernel="precomputed" or a callable.
    dual_coef_ : (1, n_sv) array, CSR if the rows were
        b.
    intercept_ : (1,)
    coef_ : (1, d)
        Weights of the features, only with kernel="linear".
    n_support_ : (1,) ints
    n_iter_ : int
    fit_status_ : int
        0 if the problem was solved to `tol`, else 1 (and a ConvergenceWarning).
    shape_fit_ : tuple
    objective_, violation_, duality_gap_ : float
    converged_ : bool
    kernel_entries_ : int
        Kernel values computed in `fit`.
    notes_ : tuple of str
        Whether the interior-point method was used.
    timings_ : dict of str to float
        Seconds of "prepare" and "solve".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    The methods and the cost of `KernelSVC` for as many rows. Memory: `cache_size`, O(n d).

    C and epsilon are those of `SVR`. They do not follow the scale of y or of the features, so that
    the model can be worse than a linear one (wine: RMSE 0.80 against 0.72); `TunedKernelSVR`
    chooses both, and standardises.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import KernelSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelSVR(C=100.0, epsilon=10.0).fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **{
            name: constraint
            for name, constraint in BoxSVC._parameter_constraints.items()
            if name not in ("class_weight", "cache_mb")
        },
        "C": BOUND,
        "cache_size": BoxSVC._parameter_constraints["cache_mb"],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
        "fit_intercept": ["boolean"],
    }

    C: float = 1.0
    _: KW_ONLY
    kernel: str | Callable[[Any, Any], np.ndarray] = "rbf"
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    tol: float = 1e-3
    epsilon: float = 0.1
    shrinking: bool = True
    cache_size: float = 1000.0
    verbose: bool = False
    max_iter: int = -1
    fit_intercept: bool = True
    max_time: float | None = None
    dtype: str = "float32"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Solve the dual.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) targets
        sample_weight : (n,), optional
            Multiplies C row by row; a row of weight 0 or less is left out.
        trace : Trace, optional
            Receives the phases, and objective and violation while the problem is solved.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, a precomputed matrix not square.
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            require_dense_values(self.kernel, X)
            X, y = self._checked_rows_and_targets(X, y, y_numeric=True)
            y, C = np.asarray(y, np.float64), np.full(len(y), float(self.C))
            require_target_range(y)
            if sample_weight is not None:
                C *= checked_weights(sample_weight, len(y), negative_is_zero=True)
            C = bounded(C)
            if callable(self.kernel):
                X, fits = self._training_values(X)
                kernel: Kernel = Precomputed() if fits else WholeRowsKernel(self.kernel, X)
                self._gamma = 0.0
            else:
                kernel = training_kernel(self, X)
                self._gamma = float(getattr(kernel, "gamma", 0.0))
        with trace.phase("solve"):
            deadline, matrix = Deadline(self.max_time, trace), None
            rows = None if isinstance(kernel, Precomputed | WholeRowsKernel) else X
            interior = Interior(
                kernel,
                X,
                coupled=self.fit_intercept,
                tol=self.tol,
                cache_mb=self.cache_size,
                max_iter=self.max_iter,
                deadline=deadline,
                trace=trace,
            )
            dual = Dual(np.arange(len(y)), y, -C, C, self.epsilon)
            self.notes_: tuple[str, ...] = ()
            reason = "precision"
            small = self.fit_intercept and is_small(
                len(y), rows, self.cache_size, MOST_POINTS_OF_REGRESSION
            )
            if small:
                limits = Limits(self.tol, self.max_iter, deadline, trace, memory_mb=self.cache_size)
                try:
                    reason = self._solve_small(X, y, C, kernel, limits)
                except KernelRangeError:
                    # Its rows are float32; the other engine's need not be.
                    if KernelMatrix(kernel, X, self.dtype).dtype == np.float32:
                        raise
            elif interior.takes(len(y)):
                result = interior.solve_by_rank(dual)
                if result is not None:
                    reason = self._set_interior(result)
            if reason == "precision":
                matrix = KernelMatrix(kernel, X, self.dtype)
                result = interior.bounded(
                    dual,
                    self.max_iter,
                    lambda steps: self._solve_large(matrix, y, C, steps, deadline, trace),
                )
                if isinstance(result, InteriorResult):
                    reason = self._set_interior(result)
                else:
                    reason = result.stop_reason
                    self._set_solution(result.coef, reason, result.kernel_entries, result)
        with trace.phase("prepare"):
            self._set_machine(X, kernel, matrix)
        if callable(self.kernel) and isinstance(kernel, Precomputed):
            self.kernel_entries_ = len(y) ** 2  # once, before they were used
        if reason != "tol":
            self._warn(reason)
        self.timings_ = dict(trace.timings)
        if self.verbose:
            print(
                f"KernelSVR: {self.n_iter_} steps, {len(self.support_)} support vectors, "
                f"violation {self.violation_:.2g}, {self.timings_['solve']:.3g} s"
            )
        return self

    def _solve_small(
        self, X: Any, y: np.ndarray, C: np.ndarray, kernel: Kernel, limits: Limits
    ) -> str:
        """Solve by the engine for few points. Returns the reason of its stop."""
        rows = small_rows(kernel, X, np.arange(len(y)))
        result = solve_each(rows, y[None], -C[None], C[None], limits, epsilon=self.epsilon)
        reason = result.stop_reason[0]
        self._set_solution(result.coef[0], reason, result.kernel_entries, result)
        if result.interior[0]:
            self.notes_ = (interior_note(1, 1, result.interior[0]),)
        return reason

    def _set_interior(self, result: InteriorResult) -> str:
        """Set the solution of the interior-point method. Returns the reason of its stop."""
        self._set_solution(result.coef, result.stop_reason, 0, result)
        self.notes_ = (interior_note(1, 1, result.n_iter),)
        return result.stop_reason

    def _solve_large(
        self,
        matrix: KernelMatrix,
        y: np.ndarray,
        C: np.ndarray,
        max_iter: int,
        deadline: Deadline,
        trace: Trace,
    ) -> RegressionDualResult:
        """Solve by the engine for many points, in at most `max_iter` steps."""
        return solve_regression_dual(
            matrix,
            y,
            C,
            epsilon=self.epsilon,
            intercept=self.fit_intercept,
            tol=self.tol,
            cache_mb=self.cache_size,
            max_iter=max_iter,
            max_time=deadline.seconds_left(),
            shrinking=self.shrinking,
            trace=trace,
        )

    def _set_solution(self, coef: np.ndarray, reason: str, n_entries: int, result: Any) -> None:
        """Set what describes the solution coef : (n,); `result` is that of either engine."""
        self.support_ = np.flatnonzero(coef)
        self.dual_coef_ = coef[None, self.support_]
        require_finite(self, dual_coef_=self.dual_coef_, intercept_=result.intercept)
        self.n_support_ = np.array([len(self.support_)])
        self.intercept_ = np.atleast_1d(result.intercept).astype(np.float64)
        for name in ("objective", "violation", "duality_gap"):
            setattr(self, f"{name}_", float(np.sum(getattr(result, name))))
        self.n_iter_ = int(np.sum(result.n_iter))
        self.converged_, self.fit_status_ = reason == "tol", int(reason != "tol")
        self.kernel_entries_ = n_entries

    def _warn(self, reason: str) -> None:
        warn_of_limits({reason}, self, self.tol, self.max_iter)

    def _set_machine(self, X: Any, kernel: Kernel, matrix: KernelMatrix | None) -> None:
        """Set what predicts. matrix : of the large engine, if that solved the problem."""
        no_rows = isinstance(kernel, Precomputed | WholeRowsKernel)
        self.support_vectors_ = np.empty((0, 0)) if no_rows else X[self.support_]
        rows = self._fit_rows if callable(self.kernel) else X
        self.shape_fit_ = rows.shape if hasattr(rows, "shape") else (len(rows),)
        coef = self.dual_coef_
        self.dual_coef_ = like_rows(coef, X)
        warn_of_unbounded(self.C, coef)
        if matrix is None and not is_dense_gaussian(kernel, X):
            matrix = KernelMatrix(kernel, X, self.dtype)
        self._machine: Any = shared_expansion(kernel, X, self.support_, coef, matrix)
        self.model_bytes_ = self._machine.nbytes

    def predict(self, X: Any) -> np.ndarray:
        """f(x) + b of rows X : (u, d), with kernel="precomputed" (u, n_train); (u,) float64."""
        check_is_fitted(self, msg=NOT_FITTED.format("SVR"))
        if callable(self.kernel):
            blocks = [self._machine(self._new_values(rows)) for rows in self._row_blocks(X)]
            return np.concatenate(blocks)[:, 0] + self.intercept_[0]
        X = checked_rows(self, X)
        assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        values: np.ndarray = self._machine(X)[:, 0] + self.intercept_[0]
        return values

    @property
    def coef_(self) -> Any:
        """Weights of the features, (1, d); only with kernel="linear"."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        return read_only(matmul(self.dual_coef_, self.support_vectors_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
