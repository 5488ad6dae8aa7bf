"""Exact kernel ridge regression: (K + alpha I) c = y (`kbench.solvers.ridge.kernel_ridge`)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from kbench.approximation import FactoredKernel, LowRankKernel, Machine, Nystrom
from kbench.approximation.landmarks.pivots import randomly_pivoted_cholesky
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.functions.callable import FunctionKernel
from kbench.kernels.functions.precomputed import Precomputed
from kbench.kernels.named import PairwiseValues, pairwise_kernel, pairwise_names
from kbench.methods.base.chunk_scores import rows_in_chunks
from kbench.methods.base.limits import checked_numbers
from kbench.methods.base.penalty import chosen_alpha
from kbench.methods.base.posterior import explained_by_cholesky, posterior_std
from kbench.methods.base.ridge import (
    KernelRidgeEstimator,
    WeightedRidgeClassifierMixin,
    WeightedRidgeRegressorMixin,
    warn_unconverged,
)
from kbench.methods.base.training_kernel import check_precomputed
from kbench.methods.base.widths import gamma_of_scaled_rows, scaled_new_rows
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.solvers import solve_kernel_ridge
from kbench.solvers.ridge.kernel_ridge import least_squares, low_rank_inverse
from kbench.trace import Deadline, Trace
from kbench.validated import NOT_NEGATIVE, choice, usual, validate_data

# Accelerated randomly pivoted Cholesky proposes 1 / `_PROPOSAL_BLOCKS` of the pivots at a time, but
# at least `_MIN_PROPOSALS`. Larger blocks make matrix products faster, and more proposals are
# rejected. Set by hand.
_PROPOSAL_BLOCKS = 10
_MIN_PROPOSALS = 64
# Largest number of rows for which a matrix that is singular in float64 is solved by least squares:
# its singular values take 20 n^3 operations, ten seconds at this number. Set by hand.
_MAX_LEAST_SQUARES_ROWS = 2000
# A matrix counts as singular if its rounding errors exceed this fraction of alpha; at 0.1,
# iterations still reach the error of a factorisation. Set by hand.
_MAX_ROUNDING = 0.1


@dataclass(eq=False, repr=False)
class ExactRidge(KernelRidgeEstimator):
    """Kernel ridge on the kernel matrix itself; base class of regressor and classifier.

    Parameters
    ----------
    alpha : float or "loo", default="loo"
        Added to the diagonal of the kernel matrix: lambda of the papers.
        "loo" takes the lowest leave-one-out error on at most 500 rows; `alpha_` is the choice.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; the kernel is positive semidefinite.
    solver : {"cholesky", "pcg"}, default="cholesky"
        The preconditioner of conjugate gradients on the kernel matrix: its Cholesky factorisation,
        n^2 numbers, or a low-rank approximation, n `n_landmarks` numbers. The solution is the same
        to `tol`.
    n_landmarks : int, default=1000
        For "pcg": rows chosen by randomly pivoted Cholesky. More rows save iterations. Set by hand.
    preconditioner : {"nystrom", "rpcholesky"} or None, default=None
        For "pcg". "nystrom" (None): the Nystrom approximation at landmarks, which are chosen among
        a sample of the rows if there are many. "rpcholesky": the factor of accelerated randomly
        pivoted Cholesky (Epperly, Tropp and Webber 2024) on all rows, which takes n `n_landmarks`
        kernel values.
    tol : float, default=1e-8
        Largest relative residual of (K + alpha I) C = Y, by float64 kernel values. Set by hand.
    max_iter : int, default=200
        Largest number of products with the kernel matrix. Set by hand.
    max_time : float or None, default=None
        As in `KernelSVC`; it is checked between products. A low-rank preconditioner of 500
        landmarks replaces a factorisation that would take longer.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the factorisation, or of the approximation.
    memory_mb : float, default=8192.0
        Largest size in MiB of factorisation or approximation, checked beforehand. Set by hand.
    fit_intercept : bool, default=False
        Whether to subtract the mean of the targets before the fit and to add it to the estimates.
        A ridge model has no intercept by definition: f tends to 0 away from the rows.

    Attributes
    ----------
    dual_coef_ : (n, m) float64
    n_iter_ : int
    converged_ : bool
    kernel_entries_ : int
        Kernel values computed, without those of the choice of landmarks by "nystrom".
    kernel_numbers_ : int
        n^2, the entries of the kernel matrix.
    timings_ : dict of str to float
        Seconds of "precondition" ("pcg") and "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    "cholesky" takes O(n^3 / 3 + n^2 d) time and n^2 numbers, "pcg" with m landmarks O(n m^2) and
    O(n^2 d) for an iteration, n m numbers. Prediction costs O(n d) a row.
    """

    _parameter_constraints: ClassVar[dict] = {
        **KernelRidgeEstimator._parameter_constraints,
        "solver": [choice("cholesky", "pcg")],
        "preconditioner": [choice("nystrom", "rpcholesky"), None],
        **usual("n_landmarks", "tol", "max_iter", "max_time", "dtype", "memory_mb"),
    }

    alpha: float | str = "loo"
    _: KW_ONLY
    solver: str = "cholesky"
    n_landmarks: int = 1000
    preconditioner: str | None = None
    tol: float = 1e-8
    max_iter: int = 200
    max_time: float | None = None
    dtype: str = "float32"
    memory_mb: float = 8192.0

    def _solve(
        self, X: Any, Y: np.ndarray, trace: Trace, weight: np.ndarray | None = None
    ) -> Machine:
        deadline = Deadline(self.max_time, trace)
        scale = None if weight is None else np.sqrt(weight)
        targets = Y if scale is None else scale[:, None] * Y
        precondition = None
        entries = 0
        if self.solver == "cholesky":
            check_memory(len(Y), self.dtype, self.memory_mb)
        else:
            with trace.phase("precondition"):
                precondition, entries = self._low_rank_inverse(X, scale)
        with trace.phase("solve"):
            kernel = KernelMatrix(self._kernel(X), X, self.dtype)
            result = solve_kernel_ridge(
                kernel,
                targets,
                self.alpha_,
                scale=scale,
                precondition=precondition,
                tol=self.tol,
                max_iter=self.max_iter,
                max_time=deadline.seconds_left(),
                trace=trace,
            )
        warn_unconverged(result, self)
        self.dual_coef_ = result.x if scale is None else scale[:, None] * result.x
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        self.kernel_entries_ = kernel.n_entries + entries
        self.kernel_numbers_ = len(Y) ** 2
        dtype = prediction_dtype(kernel, self.dual_coef_)
        return KernelExpansion(kernel, np.arange(len(Y)), self.dual_coef_, dtype)

    def _landmark_kernel(self, X: Any) -> dict[str, Any]:
        """Parameters of the kernel for `Nystrom` of rows X."""
        parameters = {name: getattr(self, name) for name in ("kernel", "degree", "coef0")}
        return {**parameters, "gamma": gamma_of_scaled_rows(self.gamma)}

    def _low_rank_inverse(
        self, X: Any, scale: np.ndarray | None
    ) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
        """(S G~ S + alpha I)^-1 of the Nystrom approximation, and the number of kernel values."""
        n = X.shape[0]
        size = min(self.n_landmarks, n)
        size_mb = np.dtype(self.dtype).itemsize * n * size / 2**20
        if size_mb > self.memory_mb:
            raise ValueError(
                f"values of {n} points at {size} landmarks take {size_mb:.0f} MiB, more than "
                f"memory_mb={self.memory_mb:g}; use fewer landmarks"
            )
        # The landmarks change the number of iterations, not the solution, so the seed is fixed.
        if self.preconditioner == "rpcholesky":
            kernel = KernelMatrix(self._kernel(X), X, self.dtype)
            n_proposals = max(_MIN_PROPOSALS, size // _PROPOSAL_BLOCKS)
            rng = np.random.RandomState(0)
            factor = randomly_pivoted_cholesky(kernel, size, rng, n_proposals)[1]
            if scale is not None:
                factor = factor * scale[:, None].astype(factor.dtype)
            return low_rank_inverse(factor, self.alpha_), kernel.n_entries
        feature_map = Nystrom(
            size, **self._landmark_kernel(X), landmarks="rpcholesky", random_state=0
        ).fit(X)
        matrix: FactoredKernel = LowRankKernel(feature_map, X, self.dtype)
        if scale is not None:
            matrix = matrix.scaled(scale)
        return matrix.preconditioner(self.alpha_, size), size**2 + n * feature_map.n_landmarks_


@dataclass(eq=False, repr=False)
class KernelRidge(WeightedRidgeRegressorMixin, ExactRidge):
    """Exact kernel ridge regression, which replaces `sklearn.kernel_ridge.KernelRidge`.

    Parameters, defaults, attributes and predictions are scikit-learn's; the parameters from
    `solver` on are those of `ExactRidge`.

    Parameters
    ----------
    alpha : float, (m,) or "loo", default=1
        Added to the diagonal of the kernel matrix, at least 0; one number or one for each target.
        "loo", the default of `method=krr`, takes the lowest leave-one-out error on at most 500
        rows; `alpha_` is the choice. `TunedKernelRidge` chooses the kernel's width, too.
    kernel : str or callable, default="linear"
        A name of `kbench.kernels.KERNELS` ("poly" also as "polynomial"), or another one of
        `sklearn.metrics.pairwise.PAIRWISE_KERNEL_FUNCTIONS`, whose values scikit-learn computes.
        "precomputed" values of training rows are dense and symmetric, up to 3e-4 of the largest. A
        callable has two rows as its arguments and returns a number.
    gamma : float, (d,) array, {"scale", "auto"} or None, default=None
        None is 1 / d, and 1 for "chi2"; "scale" also counts rows of weight 0.
    degree : float, default=3
    coef0 : float, default=1
    kernel_params : dict or None, default=None
        Further arguments of a callable kernel.
    solver, n_landmarks, preconditioner, tol, max_iter, max_time, dtype, memory_mb
        As in `ExactRidge`.

    Attributes
    ----------
    dual_coef_ : (n,) or (n, m) float64
    X_fit_ : (n, d) array or CSR
        The rows, or the precomputed kernel matrix.
    alpha_ : float or (m,)
        The ridge that was used.
    n_iter_, converged_, kernel_entries_, kernel_numbers_, timings_, model_bytes_, n_features_in_
        As in `ExactRidge`.

    Notes
    -----
    The costs are those of `ExactRidge`, for each different value of `alpha`. With alpha=0, a kernel
    that is not positive definite, or a precomputed matrix, the system is solved in float64; if it
    is singular, by least squares with a LinAlgWarning, as in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import KernelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidge(0.1, kernel="rbf", gamma=50.0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    """

    sees_unweighted_rows: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        **ExactRidge._parameter_constraints,
        "alpha": [NOT_NEGATIVE, "array-like", choice("loo")],
        "kernel": [choice(*pairwise_names(), "precomputed"), callable],
        "gamma": [choice("scale", "auto"), NOT_NEGATIVE, "array-like", None],
        "degree": [NOT_NEGATIVE],
        "kernel_params": [dict, None],
    }

    alpha: Any = 1
    _: KW_ONLY
    kernel: Any = "linear"
    gamma: Any = None
    degree: Any = 3
    coef0: float = 1
    kernel_params: dict | None = None

    def _kernel(self, X: Any) -> Kernel:
        if self.kernel == "precomputed":
            return Precomputed()
        if callable(self.kernel):
            parameters = tuple((self.kernel_params or {}).items())
            return FunctionKernel(PairwiseValues(self.kernel, parameters))
        return pairwise_kernel(
            self.kernel,
            X,
            gamma=gamma_of_scaled_rows(self.gamma),
            degree=self.degree,
            coef0=self.coef0,
        )

    def _landmark_kernel(self, X: Any) -> dict[str, Any]:
        kernel = self._kernel(X)
        if isinstance(kernel, FunctionKernel):
            return {"kernel": kernel.function}
        name = "poly" if self.kernel == "polynomial" else self.kernel
        degree = int(self.degree) if name == "poly" else 3
        gamma = getattr(kernel, "gamma", "scale")
        return {"kernel": name, "gamma": gamma, "degree": degree, "coef0": self.coef0}

    def _validate_params(self) -> None:
        super()._validate_params()
        if not isinstance(self.alpha, str):
            self._require_alpha()

    def _require_alpha(self) -> None:
        requirement = "one or more numbers that are finite and at least 0"
        checked_numbers("alpha", self.alpha, requirement, lambda a: np.isfinite(a) & (a >= 0.0))

    def _choose_alpha(self, X: Any, Y: np.ndarray, weight: np.ndarray | None) -> Any:
        if isinstance(self.alpha, str):
            return chosen_alpha(self.alpha, lambda: self._kernel(X), X, Y, weight)
        self._require_alpha()
        alpha = np.asarray(self.alpha, np.float64)
        if alpha.shape not in ((), (1,), (Y.shape[1],)):
            raise ValueError(
                f"alpha has shape {alpha.shape}, but there are {Y.shape[1]} targets; pass one "
                "number, or one for each target"
            )
        return float(alpha.ravel()[0]) if alpha.size == 1 else alpha

    def _solve(
        self, X: Any, Y: np.ndarray, trace: Trace, weight: np.ndarray | None = None
    ) -> Machine:
        self._weight = weight
        kernel = self._kernel(X)
        # scikit-learn computes "cosine", of which a `FunctionKernel` does not know that it is
        # positive semidefinite.
        is_definite = kernel.is_definite or self.kernel == "cosine"
        is_solvable = is_definite and np.min(self.alpha_) > 0.0
        if is_solvable and not self._is_singular(kernel, X, weight):
            machine = self._solve_each_alpha(X, Y, trace, weight)
        else:
            if self.solver == "pcg":
                raise ValueError(
                    f"solver='pcg' needs a positive definite kernel and alpha > 0, got "
                    f"kernel={self.kernel!r} and alpha={self.alpha}; use solver='cholesky'"
                )
            machine = self._solve_directly(kernel, X, Y, trace, weight)
        if self._one_target:
            self.dual_coef_ = self.dual_coef_[:, 0]
        return machine

    def _is_singular(self, kernel: Kernel, X: Any, weight: np.ndarray | None) -> bool:
        """Whether float64 rounding errors come near alpha, so that iterations would end far from
        the least-squares solution of scikit-learn. False for more than 2,000 rows."""
        n = X.shape[0]
        if self.solver == "pcg" or n > _MAX_LEAST_SQUARES_ROWS:
            return False
        diagonal = KernelMatrix(kernel, X, np.float64).diagonal()
        matrix_trace = float((diagonal if weight is None else weight * diagonal).sum())
        return bool(
            np.finfo(np.float64).eps * matrix_trace > _MAX_ROUNDING * float(np.min(self.alpha_))
        )

    def _fit(self, X: Any, Y: np.ndarray, trace: Trace, sample_weight: Any = None) -> Self:
        check_precomputed(self.kernel, X)
        self.X_fit_ = X
        return super()._fit(X, Y, trace, sample_weight)

    def _solve_each_alpha(
        self, X: Any, Y: np.ndarray, trace: Trace, weight: np.ndarray | None
    ) -> Machine:
        """Solve as `ExactRidge` does, once for each different alpha."""
        if np.ndim(self.alpha_) == 0:
            return super()._solve(X, Y, trace, weight)
        alphas, coef = self.alpha_, np.empty(Y.shape)
        n_iter, converged, entries = 0, True, 0
        for alpha in np.unique(alphas):
            self.alpha_, columns = float(alpha), alphas == alpha
            super()._solve(X, Y[:, columns], trace, weight)
            coef[:, columns] = self.dual_coef_
            n_iter, converged = max(n_iter, self.n_iter_), converged and self.converged_
            entries += self.kernel_entries_
        self.alpha_, self.dual_coef_ = alphas, coef
        self.n_iter_, self.converged_, self.kernel_entries_ = n_iter, converged, entries
        kernel = KernelMatrix(self._kernel(X), X, self.dtype)
        return KernelExpansion(kernel, np.arange(len(Y)), coef, prediction_dtype(kernel, coef))

    def _solve_directly(
        self, kernel: Kernel, X: Any, Y: np.ndarray, trace: Trace, weight: np.ndarray | None
    ) -> Machine:
        """Factorise any symmetric matrix in float64, or solve least squares if it is singular."""
        check_memory(len(Y), "float64", self.memory_mb)
        with trace.phase("solve"):
            matrix = KernelMatrix(kernel, X, np.float64)
            gram = matrix.block(np.arange(len(Y)))
            scale = None if weight is None else np.sqrt(weight)
            targets = Y
            if scale is not None:
                gram *= np.outer(scale, scale)
                targets = scale[:, None] * Y
            coef = np.empty(Y.shape)
            alphas = np.broadcast_to(self.alpha_, (Y.shape[1],))
            for alpha in np.unique(alphas):
                shifted = gram.copy()
                shifted[np.diag_indices_from(shifted)] += alpha
                coef[:, alphas == alpha] = least_squares(shifted, targets[:, alphas == alpha])
        self.dual_coef_ = coef if scale is None else scale[:, None] * coef
        self.n_iter_, self.converged_ = 1, True
        self.kernel_entries_, self.kernel_numbers_ = matrix.n_entries, len(Y) ** 2
        return KernelExpansion(matrix, np.arange(len(Y)), self.dual_coef_, np.dtype(np.float64))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Estimates at rows X : (u, d), and their posterior deviations.

        Parameters
        ----------
        X : (u, d) array or CSR
        return_std : bool, default=False
            Whether to return the function's standard deviations, too. They lack the noise of a new
            target, as in `GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)`. The noise
            has the variance `alpha`, or alpha / w for a training row of weight w.

        Returns
        -------
        (u,) or (u, m) float64, or a pair of such arrays

        Raises
        ------
        ValueError
            With return_std: K + alpha I is not positive definite, the kernel is precomputed, so
            that k(x, x) is unknown, X is in chunks, or `memory_mb` is too little.

        Notes
        -----
        return_std takes O(n^3 / 3) time and n^2 float64 numbers for each different alpha, which
        are not kept, and O(n^2) time for each row, in float64.
        """
        predictions = super().predict(X)
        return (predictions, self._posterior_std(X)) if return_std else predictions

    def _posterior_std(self, X: Any) -> np.ndarray:
        if self.kernel == "precomputed" or rows_in_chunks(X) is not None:
            raise ValueError("return_std needs rows in memory and a kernel with values k(x, x)")
        if not hasattr(self, "X_fit_"):
            raise ValueError("return_std needs X_fit_, which models of kbench 0.1 lack: fit again")
        X = validate_data(self, X, reset=False)
        n = self.X_fit_.shape[0]
        check_memory(n, "float64", self.memory_mb)
        rows, X = scaled_new_rows(self, self.X_fit_), scaled_new_rows(self, X)
        kernel = KernelMatrix(self._kernel(rows), rows, np.float64)
        scale = None if self._weight is None else np.sqrt(self._weight)
        alphas = np.ravel(self.alpha_)
        deviations = {}
        for alpha in np.unique(alphas):
            gram = kernel.block(np.arange(n))
            explained_variance = explained_by_cholesky(gram, float(alpha), scale)
            deviations[alpha] = posterior_std(kernel, X, explained_variance)
        if self._one_target:
            return deviations[alphas[0]]
        n_targets = self.dual_coef_.shape[1]
        return np.column_stack([deviations[alpha] for alpha in np.broadcast_to(alphas, n_targets)])


@dataclass(eq=False, repr=False)
class KernelRidgeClassifier(WeightedRidgeClassifierMixin, ExactRidge):
    """Exact kernel ridge classification; parameters and attributes are those of `ExactRidge`.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Seed of the folds for `probability`.
    """

    _parameter_constraints: ClassVar[dict] = {
        **ExactRidge._parameter_constraints,
        "random_state": ["random_state"],
    }

    random_state: Any = field(default=None, kw_only=True)


def check_memory(n: int, dtype: str, memory_mb: float) -> None:
    """Refuse a kernel matrix of order n that exceeds `memory_mb`."""
    size_mb = np.dtype(dtype).itemsize * n**2 / 2**20
    if size_mb > memory_mb:
        raise ValueError(
            f"the kernel matrix of {n} points takes {size_mb:.0f} MiB, more than "
            f"memory_mb={memory_mb:g}; ApproximateRidge takes less"
        )
