"""Support vector classifier by ADMM on an HSS approximation of the kernel matrix: HSS-ADMM.

Cipolla and Gondzio, "Training very large scale nonlinear SVMs using Alternating Direction Method of
Multipliers coupled with the Hierarchically Semi-Separable kernel approximations" (EURO Journal on
Computational Optimization 10, 2022), Algorithm 3.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from kbench.approximation import HSSMatrix
from kbench.class_labels import winners
from kbench.errors import warn
from kbench.methods.base.composition import fresh_part
from kbench.methods.base.limits import checked_numbers, limit_text
from kbench.methods.base.one_vs_rest import WeightedOneVsRest
from kbench.methods.base.penalty import C_CONSTRAINT
from kbench.methods.hss.admm_path import DualSolutionPath, solve_dual
from kbench.methods.hss.hss import CompressedKernel, hss_model
from kbench.prediction.flops import CountedPrediction
from kbench.trace import Deadline, Trace
from kbench.validated import POSITIVE, choice, fit_context, usual, validate_data

# The paper's rule for beta: 100, multiplied by ten at each of these numbers of rows.
_BETA_THRESHOLDS = (100_000, 1_000_000)


@dataclass(eq=False, repr=False)
class HSSADMMClassifier(CountedPrediction, WeightedOneVsRest):
    """C-support vector classifier with intercept on a compressed kernel matrix.

    The kernel matrix is compressed once (`HSSMatrix`), the compressed matrix plus `beta` I is
    factorised once, and the dual is solved by ADMM, which solves once with the factors in each
    iteration (`kbench.solvers.admm.svm_admm`). Prediction uses exact kernel values. Several
    classes are one-vs-rest problems that share the compression, the factors and the iterations.

    Parameters
    ----------
    matrix : HSSMatrix or None, default=None
        Kernel and compression; a clone of `matrix` is fitted. None is `HSSMatrix()`. A matrix
        without a random_state gets that of the classifier.
    C : float, sequence of float or "loo", default=1.0
        Upper bound of the dual variables, multiplied by the weights of row and class. Several
        values are solved and predicted together, as columns of the same solutions and kernel
        blocks; `predict` uses the smallest C of the best accuracy on held-out rows.
    beta : float or "auto", default="auto"
        Penalty parameter of ADMM and shift of the factors. "auto" is 100 below 100,000 rows, 1,000
        below a million and else 10,000. If the compressed matrix is too indefinite for this beta
        (no factors exist, or the steps of the fixed number of iterations grow), "auto" raises
        beta, with a warning.
    max_iter : int, default=10
        Limit on the iterations; 10 is the paper's number, for C = 1. On the command line it is 100,
        because with a C of up to 128, which "loo" may choose, the model after ten iterations can be
        less accurate than a linear model.
    tol : float or None, default=None
        Largest residual at which iterations stop, see `solve_admm`. None runs exactly `max_iter`
        iterations, as the paper does.
    max_time : float or None, default=None
        As in `KernelSVC`; it is checked between iterations, and the compression is not interrupted.
    polish : bool, default=False
        Continue with an exact solver, which uses kernel values without compression, to the
        support vector machine of `KernelSVC`. The exact solver starts from zero if more than half
        of the rows have coefficients, as after ten iterations: combine polish with tol=0.1 and a
        max_iter of several hundred.
    polish_tol : float, default=1e-3
        `tol` of the exact solver, as in `KernelSVC`.
    validation_fraction : float, default=0.2
        Fraction of the rows, stratified by class, that are held out to choose among several C. The
        final model is fitted to all rows. Set by hand.
    predict_with : {"exact", "compressed"}, default="exact"
        "compressed" evaluates the decision function through the tree (`HSSMatrix.machine`).
    class_weight, probability
        As in `KernelSVC`.
    error_rows : int, default=0
        Number of rows on which `kernel_error_` is measured, outside the clock; 0 skips it.
    warm_start : bool, default=False
        Keep the compressed matrix and its factors. The next `fit` to the same rows reuses
        everything for another C, the compression for another beta, and tree and neighbours for
        another kernel. With `tol`, beta="auto" starts from the last beta.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows and of the matrix.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
        Rows with a non-zero coefficient in at least one of the problems.
    C_ : float
        The value that `predict` uses.
    validation_scores_ : (number of C,)
        Accuracy on held-out rows; only with several C.
    path_ : (str, list of float)
        "C" and its values, in the order of `predict_path`.
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
        y_i z_i
    intercept_ : (1,) or (n_classes,)
    n_support_ : (n_classes,) ints
    n_iter_ : int
    objective_ : float
        1/2 z'YK~Yz - e'z, summed over problems; with K instead of K~ after polishing.
    primal_residual_, dual_residual_ : float
    beta_ : float
    converged_ : bool
    matrix_ : HSSMatrix
        The fitted matrix; only with warm_start=True, because it is larger than the model.
    hss_bytes_ : int
        Size of the compressed matrix.
    ranks_ : list of (min, mean, max)
        Ranks of the nodes of levels 1, 2, ...
    kernel_error_ : float
        Relative Frobenius error of the compressed matrix on `error_rows` rows; only if that is > 0.
    kernel_entries_ : int
        Kernel values computed in `fit`.
    n_parameters_, model_bytes_ : int
        Size of the model that predicts.
    timings_ : dict of str to float
        Seconds of "prepare", "validate", "tree", "neighbours", "compress", "factor", "admm",
        "polish".
    n_features_in_ : int

    Notes
    -----
    O(n r (r + d)) time to compress and factorise at ranks r; O(n (r + leaf_size)) time for each
    iteration, and as much memory. Prediction costs O(n_sv d) a row, and after few iterations
    nearly all rows have coefficients; compressed prediction costs O((leaf_size + r log n) d).

    References
    ----------
    S. Cipolla, J. Gondzio, "Training very large scale nonlinear SVMs using Alternating Direction
    Method of Multipliers coupled with the Hierarchically Semi-Separable kernel approximations",
    EURO Journal on Computational Optimization 10, 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.approximation import HSSMatrix
    >>> from kbench.methods import HSSADMMClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> matrix = HSSMatrix(gamma=1e-3, random_state=0)
    >>> model = HSSADMMClassifier(matrix, C=1.0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "matrix": [HSSMatrix, None],
        "C": [*C_CONSTRAINT, "array-like"],
        "beta": [choice("auto"), POSITIVE],
        "tol": [POSITIVE, None],
        "polish": ["boolean"],
        "polish_tol": [POSITIVE],
        "predict_with": [choice("exact", "compressed")],
        **usual("max_iter", "max_time", "validation_fraction", "class_weight"),
        **usual("probability", "error_rows", "warm_start", "random_state"),
    }

    matrix: HSSMatrix | None = None
    _: KW_ONLY
    C: float | Sequence[float] = 1.0
    beta: float | str = "auto"
    max_iter: int = 10
    tol: float | None = None
    polish: bool = False
    polish_tol: float = 1e-3
    validation_fraction: float = 0.2
    predict_with: str = "exact"
    error_rows: int = 0
    warm_start: bool = False

    # The parameters of the nested matrix are checked by its own `fit`.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Compress the kernel matrix, factorise it and iterate.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row. The matrix is compressed without it.
        trace : Trace, optional
            Receives C and validation_accuracy if there are several C; hss_mb, the size of the
            compressed matrix as the paper counts it (8 bytes a number); the residuals after each
            iteration; and the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range, y has fewer than two classes, or the compressed matrix is
            not positive definite after the shift or exceeds its `memory_mb`.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        with trace.phase("prepare"):
            targets = self._targets(X, y, sample_weight)
            C_values: list[float] = self._checked_C(self.C_).tolist()
            bounds = targets.C.reshape(len(targets.Y), -1)
        chosen = 0
        if len(C_values) > 1:
            with trace.phase("validate"):
                self.validation_scores_ = self._validate(targets.X, targets.Y, bounds, deadline)
            # Among equal scores the smallest C is best.
            chosen = int(np.lexsort((np.array(C_values), -self.validation_scores_))[0])
            for C, score in zip(C_values, self.validation_scores_, strict=True):
                trace(C=C, validation_accuracy=score)
        compressed, solution = self._solve(targets.X, targets.Y, bounds, deadline, trace)
        matrix = compressed.matrix
        with trace.phase("prepare"):
            coef = solution.coef.reshape(len(solution.coef), -1)
            machine = hss_model(matrix, coef, self.predict_with)
        self._machine = machine.function
        self._intercepts, self._chosen = solution.intercept, chosen
        self.path_ = "C", C_values
        self.C_ = C_values[chosen]
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
        compressed.set_attributes(self, trace)
        compressed.keep(self)
        self.timings_ = dict(trace.timings)
        if not self.converged_:
            warn(self._convergence_message(solution), ConvergenceWarning)
        self._calibrate(targets.X, y, sample_weight, trace, deadline, C=self.C_, warm_start=False)
        return self

    def _validate_params(self) -> None:
        super()._validate_params()
        if not isinstance(self.C, str):
            self._checked_C(self.C)

    @staticmethod
    def _checked_C(values: Any) -> np.ndarray:
        return checked_numbers("C", values, "one or more numbers > 0", lambda value: value > 0.0)

    def _solve(
        self, X: Any, Y: np.ndarray, bounds: np.ndarray, deadline: Deadline, trace: Trace
    ) -> tuple[CompressedKernel, DualSolutionPath]:
        """Compress the kernel matrix of rows X : (n, d) and solve for bounds : (n, p)."""
        matrix = fresh_part(self.matrix, HSSMatrix(), self.random_state)
        compressed = CompressedKernel.of(self, matrix, X, trace)
        trace(hss_mb=8e-6 * compressed.matrix.n_parameters_)
        initial_beta, beta = self._penalty(compressed, trace)
        solution = solve_dual(
            compressed,
            Y,
            bounds,
            beta,
            compressed.matrix.dtype,
            max_iter=self.max_iter,
            tol=self.tol,
            polish_tol=self.polish_tol if self.polish else None,
            may_raise_beta=self.beta == "auto",
            deadline=deadline,
            trace=trace,
        )
        beta = beta if self.tol is not None else solution.admm.beta
        if beta > initial_beta or solution.diverges:
            prefix = f"beta='auto' is {beta:.3g}: " if beta > initial_beta else ""
            warn(
                f"{prefix}the compressed matrix is too indefinite for beta={initial_beta:g}; "
                "preset='fast' or 'accurate', or smaller tolerances, compress it more accurately"
            )
        return compressed, solution

    def _penalty(self, compressed: CompressedKernel, trace: Trace) -> tuple[float, float]:
        """Return the initial beta and, with "auto", the same or a larger one that has factors."""
        if self.beta != "auto":
            return float(self.beta), float(self.beta)
        if self.tol is not None and compressed.shift is not None:
            return compressed.shift, compressed.shift
        n = compressed.matrix.shape[0]
        beta = 100.0 * 10.0 ** sum(n >= threshold for threshold in _BETA_THRESHOLDS)
        with trace.phase("factor"):
            return beta, compressed.sufficient_shift(beta, compressed.matrix.dtype)

    def _validate(
        self, X: Any, Y: np.ndarray, bounds: np.ndarray, deadline: Deadline
    ) -> np.ndarray:
        """Accuracy of each of p values of C on held-out rows; (p,)."""
        from sklearn.model_selection import train_test_split

        labels = winners(Y)
        train, test = train_test_split(
            np.arange(len(Y)),
            test_size=self.validation_fraction,
            random_state=check_random_state(self.random_state),
            stratify=labels,
        )
        compressed, solution = self._solve(X[train], Y[train], bounds[train], deadline, Trace())
        coef = solution.coef.reshape(len(solution.coef), -1)
        machine = hss_model(compressed.matrix, coef, self.predict_with)
        values = machine.function(X[test]).reshape(len(test), *solution.intercept.shape)
        return np.mean(winners(values + solution.intercept) == labels[test][:, None], axis=0)

    def _convergence_message(self, solution: DualSolutionPath) -> str:
        in_time = solution.stop_reason != "max_time"
        if self.polish:
            reason = "" if in_time else f" by {limit_text(self, 'max_time')}"
            return (
                f"polishing stopped{reason} at a violation of {solution.violation:.2g}, above "
                f"polish_tol={self.polish_tol:g}; "
                "the model is no worse than a constant"
            )
        above = "" if self.tol is None else f", above tol={self.tol:g}"
        return (
            f"stopped by {limit_text(self, solution.stop_reason)} at residuals of "
            f"{solution.admm.primal:.2g} and {solution.admm.dual:.2g}{above}; "
            "the model is no worse than a constant"
        )

    def _decide_all(self, X: Any) -> np.ndarray:
        """Values of the m models for each of p values of C; (u, p, m)."""
        return self._machine(X).reshape(X.shape[0], *self._intercepts.shape) + self._intercepts

    def _decide(self, X: Any) -> np.ndarray:
        return self._decide_all(X)[:, self._chosen]

    @available_if(lambda self: len(np.atleast_1d(self.C)) > 1)
    def predict_path(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d) for each value of C; (u, number of C).

        The kernel values are computed once for all values of C.
        """
        X = validate_data(self, X, reset=False)
        return self.classes_[winners(self._decide_all(X))]
