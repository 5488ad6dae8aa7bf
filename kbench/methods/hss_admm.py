"""Support vector classifier through an HSS kernel matrix and ADMM: HSS-ADMM."""

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from kbench.methods._hss import HSS_CONSTRAINTS, CompressedKernel, hss_machine
from kbench.methods._hss_dual import DualSolution, solve_dual
from kbench.methods._one_vs_rest import OneVsRest
from kbench.prediction.flops import CountedPrediction
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
    C : float or sequence of float, default=1.0
        Upper bound of the dual variables, multiplied by the weights of row and class. Several are
        solved and predicted together, as columns of the same solutions and kernel blocks; `predict`
        uses the smallest of those that are most often right on held-out rows.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
        1 / (2 h^2) for the bandwidth h of the paper.
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    beta : float or "auto", default="auto"
        Penalty and shift. "auto" is 100, from 100,000 rows on 1,000 and from a million on 10,000;
        where the compressed matrix is too indefinite for it, so that factors do not exist or the
        steps of ten iterations grow, one that is enough, with a warning.
    max_iter : int, default=10
    tol : float or None, default=None
        None: exactly `max_iter` iterations. Otherwise the largest residual, see `solve_admm`.
    polish : bool, default=False
        Whether an exact solver goes on from the iterate, with kernel values in place of compressed
        ones, to the support vector machine of `KernelSVC`. It starts from zero where more than half
        of the rows have coefficients, as after ten iterations: give tol=0.1 and a max_iter of
        hundreds with it.
    polish_tol : float, default=1e-3
        As tol of `KernelSVC`.
    validation_fraction : float, default=0.2
        Share of rows, drawn by class, that decide between several C; then all rows are fitted.
    preset : {"paper_table4", "paper_table5", "fast", "accurate", "precise"}, default="fast"
    tree, balanced, leaf_size, n_neighbours, n_trees, rel_tol, abs_tol, trace_tol, max_rank, \
max_near, n_far, sketch, memory_mb
        As in `HSSMatrix`.
    predict_with : {"exact", "compressed"}, default="exact"
        "compressed": through the skeletons of the tree (`HSSMatrix.expansion`).
    class_weight : dict, "balanced" or None, default=None
    error_rows : int, default=0
        Rows on which `kernel_error_` is measured, outside the clock; 0 leaves it out.
    warm_start : bool, default=False
        Keep the compressed matrix and its factors, and use in the next `fit` on the same rows what
        its parameters leave valid: all for another C, the compression for another beta, tree and
        neighbours for another kernel. With `tol`, beta="auto" begins where it ended.
    dtype : {"float32", "float64"}, default="float32"
        Of kernel values, compressed matrix and factors; the iterates are float64.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
        Rows with a coefficient that is not zero (in one of the problems).
    C_ : float
        The one in use.
    validation_scores_ : (number of C,)
        Accuracy on held-out rows; only for several C.
    path_ : (str, list of float)
        "C" and its values, in the order of `predict_path`.
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
        y_i z_i.
    intercept_ : (1,) or (n_classes,)
    n_support_ : (n_classes,) ints
    n_iter_ : int
    objective_ : float
        1/2 x'YK~Yx - e'x at z, summed over problems; with K itself once polished.
    primal_residual_, dual_residual_ : float
    beta_ : float
    converged_ : bool
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
        Seconds of "prepare", "validate", "tree", "neighbours", "compress", "factor", "admm",
        "polish".
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
        "C": [Interval(Real, 0, None, closed="neither"), "array-like"],
        **HSS_CONSTRAINTS,
        "beta": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
        "polish": ["boolean"],
        "polish_tol": [Interval(Real, 0, None, closed="neither")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "predict_with": [StrOptions({"exact", "compressed"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        C: float | Sequence[float] = 1.0,
        *,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        beta: float | str = "auto",
        max_iter: int = 10,
        tol: float | None = None,
        polish: bool = False,
        polish_tol: float = 1e-3,
        validation_fraction: float = 0.2,
        preset: str = "fast",
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
        error_rows: int = 0,
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
        self.polish = polish
        self.polish_tol = polish_tol
        self.validation_fraction = validation_fraction
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
        self.error_rows = error_rows
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
            Told C and validation_accuracy where there are several C; hss_mb, the size of the
            compressed matrix as the paper counts it (8 bytes a number), residuals after each
            iteration, and the phases.

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
            values = self._values_of_C()
            targets = self._targets(X, y, sample_weight)
            bounds = targets.C.reshape(len(targets.Y), -1)
        chosen = 0
        if len(values) > 1:
            with trace.phase("validate"):
                self.validation_scores_ = self._validate(targets.X, targets.Y, bounds)
            # Ties go to the smallest bound.
            chosen = int(np.lexsort((np.array(values), -self.validation_scores_))[0])
            for C, score in zip(values, self.validation_scores_, strict=True):
                trace(C=C, validation_accuracy=score)
        compressed, solution = self._solve(targets.X, targets.Y, bounds, trace)
        matrix = compressed.matrix
        with trace.phase("prepare"):
            machine = hss_machine(matrix, _flat(solution.coef), self.predict_with)
        self._machine = machine.function
        self._intercepts, self._chosen = solution.intercept, chosen
        self.path_ = "C", values
        self.C_ = values[chosen]
        self.model_bytes_, self.n_parameters_ = machine.nbytes, machine.n_parameters
        coef = solution.coef[:, chosen]
        self.support_ = np.flatnonzero(coef.any(axis=1))
        self.dual_coef_ = coef[self.support_].T
        self.intercept_ = solution.intercept[chosen]
        self.objective_ = float(solution.objective[chosen].sum())
        self.n_support_ = self._count_by_class(targets.Y[self.support_])
        self.n_iter_ = solution.admm.n_iter
        self.primal_residual_, self.dual_residual_ = solution.admm.primal, solution.admm.dual
        self.beta_ = solution.admm.beta
        self.converged_ = solution.converged
        self.kernel_entries_ = matrix.kernel_entries_ + solution.kernel_entries
        compressed.describe(self, trace)
        compressed.keep(self)
        self.timings_ = dict(trace.timings)
        if not self.converged_:
            warnings.warn(self._unconverged(solution), ConvergenceWarning, stacklevel=2)
        return self

    def _values_of_C(self) -> list[float]:
        values = [float(C) for C in np.atleast_1d(self.C)]
        if not values or not all(C > 0.0 for C in values):
            raise ValueError(f"C must be one or more numbers > 0, got {self.C!r}")
        return values

    def _solve(
        self, X: Any, Y: np.ndarray, bounds: np.ndarray, trace: Trace
    ) -> tuple[CompressedKernel, DualSolution]:
        """Compress the kernel matrix of rows X : (n, d) and solve for bounds : (n, p)."""
        compressed = CompressedKernel.of(self, X, trace)
        trace(hss_mb=8e-6 * compressed.matrix.n_parameters_)
        usual, beta = self._penalty(compressed, trace)
        solution = solve_dual(
            compressed,
            Y,
            bounds,
            beta,
            self.dtype,
            max_iter=self.max_iter,
            tol=self.tol,
            polish_tol=self.polish_tol if self.polish else None,
            may_raise=self.beta == "auto",
            trace=trace,
        )
        beta = beta if self.tol is not None else solution.admm.beta
        if beta > usual or solution.grows:
            raised = f"beta='auto' is {beta:.3g}: " if beta > usual else ""
            warnings.warn(
                f"{raised}the compressed matrix is too indefinite for beta={usual:g}; "
                "preset='fast' or 'accurate', or smaller tolerances, compress it more accurately",
                UserWarning,
                stacklevel=4,
            )
        return compressed, solution

    def _penalty(self, compressed: CompressedKernel, trace: Trace) -> tuple[float, float]:
        """beta as asked for, and as much of it as factors need."""
        if self.beta != "auto":
            return float(self.beta), float(self.beta)
        if self.tol is not None and compressed.shift is not None:
            return compressed.shift, compressed.shift
        n = compressed.matrix.shape[0]
        beta = 100.0 * 10.0 ** sum(n >= step for step in _BETA_STEPS)
        with trace.phase("factor"):
            return beta, compressed.enough(beta, self.dtype)

    def _validate(self, X: Any, Y: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Accuracy of each C on rows that are held out; (p,)."""
        labels = _winners(Y)
        fitted, held = train_test_split(
            np.arange(len(Y)),
            test_size=self.validation_fraction,
            random_state=check_random_state(self.random_state),
            stratify=labels,
        )
        compressed, solution = self._solve(X[fitted], Y[fitted], bounds[fitted], Trace())
        machine = hss_machine(compressed.matrix, _flat(solution.coef), self.predict_with)
        values = machine.function(X[held]).reshape(len(held), *solution.intercept.shape)
        return np.mean(_winners(values + solution.intercept) == labels[held][:, None], axis=0)

    def _unconverged(self, solution: DualSolution) -> str:
        if self.polish:
            return (
                f"polishing stopped at a violation of {solution.violation:.2g}, above "
                f"polish_tol={self.polish_tol:g}; the model is usable"
            )
        return (
            f"stopped by max_iter={self.max_iter} at residuals of {solution.admm.primal:.2g} and "
            f"{solution.admm.dual:.2g}, above tol={self.tol:g}; the model is usable"
        )

    def _decide_all(self, X: Any) -> np.ndarray:
        """Values of the m machines for each of p values of C; (u, p, m)."""
        return self._machine(X).reshape(X.shape[0], *self._intercepts.shape) + self._intercepts

    def _decide(self, X: Any) -> np.ndarray:
        return self._decide_all(X)[:, self._chosen]

    @available_if(lambda self: len(np.atleast_1d(self.C)) > 1)
    def predict_path(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d) by the machine of each C; (u, number of C).

        All of them cost one pass over the kernel values.
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self.classes_[_winners(self._decide_all(X))]


def _flat(coef: np.ndarray) -> np.ndarray:
    return coef.reshape(len(coef), -1)


def _winners(values: np.ndarray) -> np.ndarray:
    """Number of the class that decision values : (..., m) are for."""
    if values.shape[-1] == 1:
        return (values[..., 0] > 0).astype(np.intp)
    return np.argmax(values, axis=-1)
