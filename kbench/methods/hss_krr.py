"""Kernel ridge regression and Gaussian process likelihood on an HSS kernel matrix."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from kbench.methods._hss import HSS_CONSTRAINTS, CompressedKernel, hss_machine
from kbench.prediction.flops import CountedPrediction
from kbench.trace import Trace


class HSSKernelRidge(CountedPrediction, RegressorMixin, BaseEstimator):
    """Kernel ridge regression without intercept, its kernel matrix compressed.

        coef = (K~ + alpha I)^-1 y,    f(x) = sum_j coef_j k(x, x_j)

    by one compression (`HSSMatrix`) and one factorisation; the same factors give the likelihood of
    y under a Gaussian process with noise alpha. Several targets share all of it.

    Parameters
    ----------
    alpha : float, default=1.0
        The ridge, lambda of the papers.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    preset : {"paper_table4", "paper_table5", "fast", "accurate", "precise"}, default="precise"
    tree, balanced, leaf_size, n_neighbours, n_trees, rel_tol, abs_tol, trace_tol, max_rank, \
max_near, n_far, sketch, memory_mb
        As in `HSSMatrix`.
    predict_with : {"exact", "compressed"}, default="exact"
        "compressed": through the skeletons of the tree (`HSSMatrix.expansion`).
    error_rows : int, default=200
        Rows on which `kernel_error_` is measured, outside the clock; 0 leaves it out.
    warm_start : bool, default=False
        Keep the compressed matrix, and use in the next `fit` on the same rows what its parameters
        leave valid: for another alpha all but the factors.
    dtype : {"float32", "float64"}, default="float32"
        Of kernel values and compressed matrix; factors are float64.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    dual_coef_ : (n,) or (n, n_targets)
    log_marginal_likelihood_ : float
        -1/2 y'coef - 1/2 log det(K~ + alpha I) - n/2 log 2 pi, summed over targets.
    hss_bytes_ : int
        Of the compressed matrix.
    ranks_ : list of (min, mean, max)
        Of the nodes of levels 1, 2, ...
    kernel_error_ : float
        Relative Frobenius error of the compressed matrix on `error_rows` rows; absent without.
    kernel_entries_ : int
        Kernel values computed in `fit`.
    n_parameters_, model_bytes_ : int
        What prediction keeps.
    timings_ : dict of str to float
        Seconds of "prepare", "tree", "neighbours", "compress", "factor".
    n_features_in_ : int

    Notes
    -----
    O(n r (r + d)) time to compress and factorise at ranks r, O(n (r + leaf_size)) memory. A
    compressed matrix is as indefinite as it is wrong: alpha below its least eigenvalue's size is
    refused, with one that is enough.

    References
    ----------
    G. Chavez, Y. Liu, P. Ghysels, X. S. Li, E. Rebrova, "Scalable and Memory-Efficient Kernel Ridge
    Regression", IPDPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from kbench.methods import HSSKernelRidge
    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> y = np.sin(8 * X[:, 0]) * X[:, 1]
    >>> model = HSSKernelRidge(alpha=0.1, gamma=10.0, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.99
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        **HSS_CONSTRAINTS,
        "predict_with": [StrOptions({"exact", "compressed"})],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        preset: str = "precise",
        tree: str = "2means",
        balanced: bool = False,
        leaf_size: int | None = None,
        n_neighbours: int | None = None,
        n_trees: int | None = None,
        rel_tol: float | None = None,
        abs_tol: float | None = None,
        trace_tol: float | None = None,
        max_rank: int | None = None,
        max_near: int | None = None,
        n_far: int | None = None,
        sketch: int | None = None,
        memory_mb: float | None = None,
        predict_with: str = "exact",
        error_rows: int = 200,
        warm_start: bool = False,
        dtype: str = "float32",
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.preset = preset
        self.tree = tree
        self.balanced = balanced
        self.leaf_size = leaf_size
        self.n_neighbours = n_neighbours
        self.n_trees = n_trees
        self.rel_tol = rel_tol
        self.abs_tol = abs_tol
        self.trace_tol = trace_tol
        self.max_rank = max_rank
        self.max_near = max_near
        self.n_far = n_far
        self.sketch = sketch
        self.memory_mb = memory_mb
        self.predict_with = predict_with
        self.error_rows = error_rows
        self.warm_start = warm_start
        self.dtype = dtype
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Compress the kernel matrix, factorise it and solve.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) or (n, n_targets)
        trace : Trace, optional
            Told the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, a compressed matrix that is not positive definite with this
            alpha or that exceeds `memory_mb`.
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            X, y = validate_data(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                multi_output=True,
                y_numeric=True,
            )
            targets = np.asarray(y, np.float64).reshape(len(y), -1)
        compressed = CompressedKernel.of(self, X, trace)
        matrix = compressed.matrix
        with trace.phase("factor"):
            factor = compressed.factorise(self.alpha, "float64")
            coef = factor.solve(targets)
        n, m = targets.shape
        self.log_marginal_likelihood_ = float(
            -0.5 * np.sum(targets * coef) - 0.5 * m * (factor.logdet + n * math.log(2.0 * math.pi))
        )
        self.dual_coef_ = coef if y.ndim == 2 else coef[:, 0]
        with trace.phase("prepare"):
            machine = hss_machine(matrix, coef, self.predict_with)
        self._machine = machine.function
        self.model_bytes_, self.n_parameters_ = machine.nbytes, machine.n_parameters
        self.kernel_entries_ = matrix.kernel_entries_
        compressed.describe(self, trace)
        compressed.keep(self)
        self.timings_ = dict(trace.timings)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u,) or (u, n_targets) float64."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        values = self._machine(X)
        return values if self.dual_coef_.ndim == 2 else values[:, 0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags
