"""Kernel ridge regression and Gaussian process likelihood on an HSS kernel matrix.

Chavez, Liu, Ghysels, Li and Rebrova, "Scalable and Memory-Efficient Kernel Ridge Regression" (IPDPS
2020): compression (section III), ULV factorisation and solution.
"""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kbench.approximation import HSSMatrix
from kbench.errors import warn
from kbench.kernels import KernelMatrix
from kbench.methods.base.composition import fresh_part
from kbench.methods.base.finished_fit import require_finite
from kbench.methods.base.penalty import ALPHA_CONSTRAINT, chosen_alpha
from kbench.methods.base.posterior import posterior_std
from kbench.methods.hss.hss import CompressedKernel, hss_model
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.prediction.flops import CountedPrediction
from kbench.solvers.ridge.kernel_ridge import cholesky_inverse, shifted_cholesky, solve_kernel_ridge
from kbench.trace import Trace
from kbench.validated import choice, fit_context, usual, validate_data

# Seconds of a compressed fit, for n rows and rank R between the two halves of the data:
# `_ROW_SECONDS` n + `_RANK_SECONDS` n R + `_CUBE_SECONDS` R^3. An exact fit takes `_EXACT_SECONDS`
# n^3. Set by hand, from 4,000 and 8,000 rows of five data sets; only the ratio of both times
# decides. `scripts/bench_hss.py exact` times both fits and the choice.
_ROW_SECONDS, _RANK_SECONDS, _CUBE_SECONDS, _EXACT_SECONDS = 5e-5, 2e-7, 1.5e-10, 3.3e-12
# Largest number of rows for the exact matrix: more rows need more memory. Matrix and factor take 4
# GiB of float32 here. Set by hand.
_MAX_EXACT_ROWS = 23_170
# The defaults of `tol` and `max_iter` in `KernelRidge`, for the exact solution.
_EXACT_TOL, _EXACT_MAX_ITER = 1e-8, 200
# Largest rounding error of a float32 factor, as a fraction of the ridge; a larger error changes the
# likelihood. Set by hand.
_MAX_ROUNDING = 0.1


@dataclass(eq=False, repr=False)
class HSSKernelRidge(CountedPrediction, RegressorMixin, BaseEstimator):
    """Kernel ridge regression without intercept on a compressed kernel matrix.

        coef = (K~ + alpha I)^-1 y,    f(x) = sum_j coef_j k(x, x_j)

    takes one compression (`HSSMatrix`) and one factorisation. The same factors give the marginal
    likelihood of y under a Gaussian process with noise variance alpha. Several targets share both.

    A kernel matrix of nearly full rank between clusters takes longer to compress than to factorise.
    With the preset "precise", no `leaf_size` and no warm start, `fit` estimates the rank from a
    sample in 0.01 s, and factorises the exact matrix in float32 if that is faster.

    Parameters
    ----------
    matrix : HSSMatrix or None, default=None
        Kernel and compression; a clone is fitted. None is `HSSMatrix(preset="precise")`. Without a
        random_state the matrix gets that of the regressor. The factors are always float64.
    alpha : float or "loo", default="loo"
        The ridge, lambda of the papers.
        "loo" takes the lowest leave-one-out error on at most 500 rows; `alpha_` is the choice.
    predict_with : {"exact", "compressed"}, default="exact"
        "compressed" evaluates the regression function through the tree (`HSSMatrix.machine`).
    error_rows : int, default=200
        Rows on which `kernel_error_` is measured, outside the clock; 0 skips it. Set by hand.
    fit_intercept : bool, default=False
        As in `KernelRidge`: whether to subtract the means of the targets and to add them to the
        estimates. `fit` then computes the likelihood of the residuals.
    warm_start : bool, default=False
        Keep the compressed matrix. The next `fit` to the same rows reuses whatever its parameters
        do not change: for another alpha everything except the factors.
    random_state : int, RandomState or None, default=None
        Seed of the matrix and of the rows of `error_rows`.

    Attributes
    ----------
    dual_coef_ : (n,) or (n, n_targets)
    intercept_ : (n_targets,) float64
        Means of the targets, only with fit_intercept=True.
    log_marginal_likelihood_ : float
        -1/2 y'coef - 1/2 log det(K~ + alpha I) - n/2 log 2 pi, summed over targets.
    matrix_ : HSSMatrix
        The fitted matrix; only with warm_start=True, because it is larger than the model.
    hss_bytes_ : int
        Size of the compressed matrix.
    ranks_ : list of (min, mean, max)
        Ranks of the nodes of levels 1, 2, ...; none if the matrix is exact.
    kernel_error_ : float
        Relative Frobenius error of the compressed matrix on `error_rows` rows; only if that is > 0.
    kernel_entries_ : int
        Kernel values computed in `fit`.
    n_parameters_, model_bytes_ : int
        Size of the model that predicts.
    timings_ : dict of str to float
        Seconds of "prepare", "tree", "neighbours", "compress", "factor".
    n_features_in_ : int

    Notes
    -----
    O(n r (r + d)) time to compress and factorise at ranks r, O(n (r + leaf_size)) memory. The
    compression error can make K~ indefinite: an alpha below minus its least eigenvalue is an error,
    whose message names a sufficient alpha.

    References
    ----------
    G. Chavez, Y. Liu, P. Ghysels, X. S. Li, E. Rebrova, "Scalable and Memory-Efficient Kernel Ridge
    Regression", IPDPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from kbench.approximation import HSSMatrix
    >>> from kbench.methods import HSSKernelRidge
    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> y = np.sin(8 * X[:, 0]) * X[:, 1]
    >>> matrix = HSSMatrix(gamma=10.0, preset="precise", random_state=0)
    >>> model = HSSKernelRidge(matrix, alpha=0.1).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.99
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "matrix": [HSSMatrix, None],
        "alpha": ALPHA_CONSTRAINT,
        "predict_with": [choice("exact", "compressed")],
        "fit_intercept": ["boolean", None],
        **usual("error_rows", "warm_start", "random_state"),
    }

    matrix: HSSMatrix | None = None
    _: KW_ONLY
    alpha: float | str = "loo"
    predict_with: str = "exact"
    error_rows: int = 200
    fit_intercept: bool = False
    warm_start: bool = False
    random_state: Any = None

    # The parameters of the nested matrix are checked by its own `fit`.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Compress the kernel matrix, factorise it and solve.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) or (n, n_targets)
        trace : Trace, optional
            Records the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range, or the compressed matrix is not positive definite with this
            alpha or exceeds its `memory_mb`.
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            X, y = validate_data(self, X, y, multi_output=True, y_numeric=True)
            targets = np.asarray(y, np.float64).reshape(len(y), -1)
            if self.fit_intercept:
                self.intercept_ = targets.mean(axis=0)
                targets = targets - self.intercept_
        matrix = fresh_part(self.matrix, HSSMatrix(preset="precise"), self.random_state)
        with trace.phase("tree"):
            is_exact = self._exact_is_faster(matrix, X)
        solve = self._solve_exactly if is_exact else self._solve_compressed
        coef, logdet = solve(matrix, X, targets, trace)
        n, m = targets.shape
        self.log_marginal_likelihood_ = float(
            -0.5 * np.sum(targets * coef) - 0.5 * m * (logdet + n * math.log(2.0 * math.pi))
        )
        self.dual_coef_ = coef if y.ndim == 2 else coef[:, 0]
        require_finite(self)
        self.timings_ = dict(trace.timings)
        return self

    def _solve_compressed(
        self, matrix: HSSMatrix, X: Any, targets: np.ndarray, trace: Trace
    ) -> tuple[np.ndarray, float]:
        """Coefficients (n, m) and log det(K~ + alpha I); sets the matrix's attributes."""
        compressed = CompressedKernel.of(self, matrix, X, trace)
        matrix = compressed.matrix
        with trace.phase("factor"):
            self.alpha_ = chosen_alpha(self.alpha, lambda: matrix.kernel_, X, targets)
            factor = compressed.factorise(self.alpha_, "float64")
            coef = factor.solve(targets)
        with trace.phase("prepare"):
            machine = hss_model(matrix, coef, self.predict_with)
        self._machine = machine.function
        self.model_bytes_, self.n_parameters_ = machine.nbytes, machine.n_parameters
        self.kernel_entries_ = matrix.kernel_entries_
        compressed.set_attributes(self, trace)
        compressed.keep(self)
        return coef, factor.logdet

    def _solve_exactly(
        self, matrix: HSSMatrix, X: Any, targets: np.ndarray, trace: Trace
    ) -> tuple[np.ndarray, float]:
        """As `_solve_compressed`, with the exact kernel matrix and its factor: float32, or float64
        if rounding errors of a float32 factor come near the ridge and change the likelihood."""
        kernel = KernelMatrix(matrix.kernel_function(X), X, matrix.dtype)
        self.__dict__.pop("_compressed", None)  # an earlier fit may have set it
        with trace.phase("factor"):
            self.alpha_ = chosen_alpha(self.alpha, lambda: kernel.kernel, X, targets)
            matrix_trace = float(kernel.diagonal().sum())
            if np.finfo(np.float32).eps * matrix_trace > _MAX_ROUNDING * self.alpha_:
                kernel = kernel.astype(np.float64)
            rounding = float(np.finfo(np.float64).eps) * matrix_trace
            if rounding > self.alpha_:
                raise ValueError(
                    f"alpha={self.alpha_:g} is below the rounding error of the kernel matrix, "
                    f"{rounding:.2g}, with which it may be indefinite; a larger alpha is needed"
                )
            factor = shifted_cholesky(kernel, self.alpha_)
            result = solve_kernel_ridge(
                kernel,
                targets,
                self.alpha_,
                precondition=cholesky_inverse(factor),
                tol=_EXACT_TOL,
                max_iter=_EXACT_MAX_ITER,
            )
        if not result.converged:
            warn(
                f"the exact solution ended at a residual of {result.residual.max():.2g}, above "
                f"{_EXACT_TOL:g}, because of rounding errors beside alpha={self.alpha_:g}; a "
                "larger alpha gives a more exact one",
                ConvergenceWarning,
            )
        coef, n = result.x, len(kernel)
        logdet = 2.0 * float(np.log(factor[0].diagonal().astype(np.float64)).sum())
        machine = KernelExpansion(kernel, np.arange(n), coef, prediction_dtype(kernel, coef))
        self._machine = machine
        self.model_bytes_, self.n_parameters_ = machine.nbytes, X.shape[0] * X.shape[1] + coef.size
        self.kernel_entries_ = kernel.n_entries
        self.hss_bytes_ = factor[0].nbytes
        self.ranks_: list[tuple[int, float, int]] = []
        if self.error_rows:
            self.kernel_error_ = 0.0
        return coef, logdet

    def _exact_is_faster(self, matrix: HSSMatrix, X: Any) -> bool:
        """Whether the exact kernel matrix is expected to take less time than its compression."""
        if self.warm_start or matrix.preset != "precise" or matrix.leaf_size is not None:
            return False
        n = X.shape[0]
        rank = matrix.estimated_rank(X)
        compressed_s = _ROW_SECONDS * n + _RANK_SECONDS * n * rank + _CUBE_SECONDS * rank**3
        exact_is_faster = _EXACT_SECONDS * n**3 < compressed_s
        max_bytes = np.inf if matrix.memory_mb is None else matrix.memory_mb * 2**20
        if exact_is_faster and (n > _MAX_EXACT_ROWS or 4.0 * n**2 > max_bytes):
            warn(
                f"the kernel matrix of {n} rows hardly compresses (rank {rank:.0f} between halves "
                f"of {n // 2} rows), and the exact matrix takes too much memory; FalkonRegressor "
                "and ApproximateRidge need less time and memory"
            )
            return False
        return exact_is_faster

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Values at rows X : (u, d), and their posterior deviations.

        Parameters
        ----------
        X : (u, d) array or CSR
        return_std : bool, default=False
            Whether to return the function's standard deviations, too, as in `KernelRidge.predict`,
            for noise of variance alpha on the training targets. They need the compressed matrix,
            which warm_start=True keeps; values k(x, x_j) are exact.

        Returns
        -------
        (u,) or (u, n_targets) float64, or a pair of such arrays

        Raises
        ------
        ValueError
            With return_std: the matrix was not kept, or its compression error exceeds a variance.

        Notes
        -----
        return_std takes O(n (r + d)) time for each row at ranks r, with the factors of `fit`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        predictions = self._machine(X)
        intercept = getattr(self, "intercept_", None)
        predictions = predictions if intercept is None else predictions + intercept
        predictions = predictions if self.dual_coef_.ndim == 2 else predictions[:, 0]
        return (predictions, self._posterior_std(X, predictions)) if return_std else predictions

    def _posterior_std(self, X: Any, values: np.ndarray) -> np.ndarray:
        """Deviations at validated rows X, the same for all targets, in the shape of `values`."""
        compressed: CompressedKernel | None = getattr(self, "_compressed", None)
        if compressed is None:
            raise ValueError(
                "return_std needs the compressed matrix: fit HSSKernelRidge(warm_start=True), "
                "which keeps it"
            )
        factor = compressed.factorise(self.alpha_, "float64")
        order = compressed.matrix.tree_.permutation

        def explained_variance(ordered: np.ndarray) -> np.ndarray:
            columns = np.empty_like(ordered)
            columns[order] = ordered
            return np.einsum("ij,ij->j", columns, factor.solve(columns))

        std = posterior_std(
            compressed.matrix.ordered_kernel_.astype(np.float64), X, explained_variance
        )
        return std if values.ndim == 1 else np.broadcast_to(std[:, None], values.shape).copy()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags
