"""Support vector classifier through an HSS kernel matrix and ADMM: HSS-ADMM."""

import warnings
from collections.abc import Callable
from itertools import count
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from kbench.methods._hss import HSS_CONSTRAINTS, CompressedKernel, hss_machine
from kbench.methods._one_vs_rest import OneVsRest
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import intercepts, solve_admm
from kbench.trace import Trace

# Beyond these numbers of rows beta grows tenfold (the paper's rule).
_BETA_STEPS = (100_000, 1_000_000)


class HSSADMMClassifier(CountedPrediction, OneVsRest):
    """C-support vector classifier with intercept, its kernel matrix compressed.

    The kernel matrix is compressed once (`HSSMatrix`), the compressed matrix plus `beta` I
    factorised once, and the dual solved by alternating directions, each iteration of which is one
    solution with the factors (`kbench.solvers.admm`). Prediction uses exact kernel values. Several
    classes are taken one-vs-rest and share all but the last step.

    Parameters
    ----------
    C : float, default=1.0
        Upper bound of the dual variables, multiplied by the weights of row and class.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
        1 / (2 h^2) for the bandwidth h of the paper.
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    beta : float or "auto", default="auto"
        Penalty and shift. "auto" is 100, from 100,000 rows on 1,000 and from a million on 10,000.
    max_iter : int, default=10
    tol : float or None, default=None
        None: exactly `max_iter` iterations. Otherwise the largest residual, see `solve_admm`.
    preset : {"paper_table4", "paper_table5", "fast", "accurate", "precise"}, default="paper_table5"
    tree, balanced, leaf_size, n_neighbours, n_trees, rel_tol, abs_tol, trace_tol, max_rank, \
max_near, n_far, sketch, memory_mb
        As in `HSSMatrix`.
    predict_with : {"exact", "compressed"}, default="exact"
        "compressed": through the skeletons of the tree (`HSSMatrix.expansion`).
    class_weight : dict, "balanced" or None, default=None
    warm_start : bool, default=False
        Keep the compressed matrix and its factors, and use in the next `fit` on the same rows what
        its parameters leave valid: all for another C, the compression for another beta, tree and
        neighbours for another kernel.
    dtype : {"float32", "float64"}, default="float32"
        Of kernel values, compressed matrix and factors; the iterates are float64.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
        Rows with a coefficient that is not zero (in one of the problems).
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
        y_i z_i.
    intercept_ : (1,) or (n_classes,)
    n_support_ : (n_classes,) ints
    n_iter_ : int
    objective_ : float
        1/2 x'YK~Yx - e'x at z, summed over problems.
    primal_residual_, dual_residual_ : float
    beta_ : float
    converged_ : bool
    hss_bytes_ : int
        Of the compressed matrix.
    ranks_ : list of (min, mean, max)
        Of the nodes of levels 1, 2, ...
    kernel_entries_ : int
        Kernel values computed in `fit`.
    n_parameters_, model_bytes_ : int
        What prediction keeps.
    timings_ : dict of str to float
        Seconds of "prepare", "tree", "neighbours", "compress", "factor", "admm".
    n_features_in_ : int

    Notes
    -----
    O(n r (r + d)) time to compress and factorise at ranks r, O(n (r + leaf_size)) an iteration and
    for memory. Prediction costs O(n_sv d) a row, and few iterations leave hardly any zeros;
    compressed it costs O((leaf_size + r log n) d).

    References
    ----------
    S. Cipolla, J. Gondzio, "Training very large scale nonlinear SVMs using Alternating Direction
    Method of Multipliers coupled with the Hierarchically Semi-Separable kernel approximations",
    EURO Journal on Computational Optimization 10, 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import HSSADMMClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = HSSADMMClassifier(gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        **HSS_CONSTRAINTS,
        "beta": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
        "predict_with": [StrOptions({"exact", "compressed"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
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
        beta: float | str = "auto",
        max_iter: int = 10,
        tol: float | None = None,
        preset: str = "paper_table5",
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
        class_weight: dict | str | None = None,
        warm_start: bool = False,
        dtype: str = "float32",
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.beta = beta
        self.max_iter = max_iter
        self.tol = tol
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
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.dtype = dtype
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Compress the kernel matrix, factorise it and iterate.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row. The matrix is compressed without it.
        trace : Trace, optional
            Told hss_mb, the size of the compressed matrix as the paper counts it (8 bytes a
            number), residuals after each iteration, and the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, fewer than two classes, a compressed matrix that is not
            positive definite after the shift or that exceeds `memory_mb`.
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            targets = self._targets(X, y, sample_weight)
        compressed = CompressedKernel.of(self, targets.X, trace)
        matrix = compressed.matrix
        trace(hss_mb=8e-6 * matrix.n_parameters_)
        C = np.broadcast_to(targets.C[:, None], targets.Y.shape)
        attempts = count()

        def factorise(beta: float) -> Callable[[np.ndarray], np.ndarray]:
            # A later beta that is too small is no error.
            first = next(attempts) == 0
            return compressed.factorise(beta, self.dtype, explain=first).solve

        result = solve_admm(
            factorise,
            targets.Y,
            C,
            self._penalty(len(targets.Y)),
            max_iter=self.max_iter,
            tol=self.tol,
            trace=trace,
        )
        with trace.phase("admm"):
            coef = targets.Y * result.z
            products = np.asarray(matrix @ coef, np.float64)
            self.intercept_ = intercepts(
                lambda _: products, targets.Y, result.z, C, result.multiplier
            )
        self.objective_ = float(0.5 * np.sum(coef * products) - result.z.sum())
        with trace.phase("prepare"):
            self.support_ = np.flatnonzero(coef.any(axis=1))
            self.dual_coef_ = coef[self.support_].T
            machine = hss_machine(matrix, coef, self.predict_with)
        self._machine = machine.function
        self.model_bytes_, self.n_parameters_ = machine.nbytes, machine.n_parameters
        self.n_support_ = self._count_by_class(targets.Y[self.support_])
        self.n_iter_ = result.n_iter
        self.primal_residual_, self.dual_residual_ = result.primal, result.dual
        self.beta_ = result.beta
        self.converged_ = result.converged
        self.hss_bytes_ = matrix.nbytes_
        self.ranks_ = matrix.ranks_
        self.kernel_entries_ = matrix.kernel_entries_
        compressed.keep(self)
        self.timings_ = dict(trace.timings)
        if not self.converged_:
            warnings.warn(
                f"stopped by max_iter={self.max_iter} at residuals of {result.primal:.2g} and "
                f"{result.dual:.2g}, above tol={self.tol:g}; the model is usable",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _penalty(self, n: int) -> float:
        if self.beta == "auto":
            return 100.0 * 10.0 ** sum(n >= step for step in _BETA_STEPS)
        return float(self.beta)

    def _decide(self, X: Any) -> np.ndarray:
        return self._machine(X) + self.intercept_
