"""Support vector classifier, solved exactly, in the place of `sklearn.svm.SVC`."""

import itertools
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.kernels.functions.precomputed import Precomputed
from kbench.methods.base.box_svc import BoxSVC, warn_of_limits
from kbench.methods.base.chunk_scores import rows_in_chunks
from kbench.methods.base.ends import require_finite
from kbench.methods.base.penalty import PENALTY
from kbench.methods.base.training_kernel import require_dense_values
from kbench.methods.base.weights import class_weights
from kbench.methods.exact.callable_kernel import WholeRowsKernel
from kbench.methods.exact.kernel_svc_fit import Data, LastFit, Solution
from kbench.methods.exact.linear_chunks import LinearInChunks
from kbench.methods.exact.small_machine import is_dense_gaussian, pair_expansion, shared_expansion
from kbench.methods.exact.svc_conventions import (
    BOUND,
    NOT_FITTED,
    bounded,
    like_rows,
    read_only,
    warn_of_unbounded,
)
from kbench.methods.exact.to_sklearn import fitted_peer
from kbench.trace import Deadline, Trace

if TYPE_CHECKING:
    from sklearn.svm import SVC

_CONSTRAINTS = dict(BoxSVC._parameter_constraints)
_CONSTRAINTS["cache_size"] = _CONSTRAINTS.pop("cache_mb")


@dataclass(eq=False, repr=False)
class KernelSVC(LinearInChunks):
    """C-support vector classifier.

    Minimises 1/2 ||f||^2 + sum_i C_i max(0, 1 - y_i (f(x_i) + b)) over the kernel's function space
    and, with `fit_intercept`, over b, through its dual

        min_a  1/2 a'Qa - e'a,   0 <= a_i <= C_i  [, y'a = 0],   Q_ij = y_i y_j k(x_i, x_j).

    With the intercept this is the problem of `sklearn.svm.SVC`, whose parameters have the same
    meaning here; without, it has no equality constraint and is the problem of the DC-SVM papers.

    Parameters
    ----------
    C : float or "loo", default=1.0
        Upper bound of the dual variables, multiplied by the weights of row and class; inf, the
        hard margin, is taken as 1e10, with a warning where that bounds a variable. "loo", the
        default on the command line: 1 / the ridge of the lowest leave-one-out error on at most 500
        rows, `C_`.
    kernel : str or callable, default="rbf"
        A kernel of `kbench.kernels.KERNELS`; `python -m kbench.kernels` shows their formulas. A
        callable gets all rows of `fit` in one call, as in SVC, if their values fit into
        `cache_size` (8 n^2 bytes); beyond, it is called with blocks of rows and all rows of `fit`.
        The rows may be of any kind, such as texts, and the values sparse. Precomputed values are
        dense.
    gamma : float or {"scale", "auto"}, default="scale"
        "scale" is 1 / (d Var(X)), "auto" 1 / d. Positive: with gamma=0 the kernel is constant, so
        that every row would have the same decision value.
    degree : int, default=3
        At least 1: with degree=0 the kernel is constant.
    coef0 : float, default=0.0
    shrinking : bool, default=True
        Whether the engine for large problems sets aside points that matter little.
    probability : bool, default=False
        Whether to fit what `predict_proba` needs: a sigmoid of the decision values of held-out rows
        in five folds, for each pair of classes ("ovr": for each class against the rest). Takes
        five further fits. scikit-learn 1.9 deprecates this parameter of SVC, whose default
        "deprecated" is taken as False; `CalibratedClassifierCV(KernelSVC(), ensemble=False)` works
        as well.
    tol : float, default=1e-3
        Violation of the dual's optimality at which to stop, LIBSVM's criterion for float64 kernel
        values.
    cache_size : float, default=1000.0
        MB for kernel values, at most; memory is taken as it is needed.
    class_weight : dict, "balanced" or None, default=None
    verbose : bool, default=False
        Whether `fit` prints a line on its result.
    max_iter : int, default=-1
        Limit on steps of each binary problem; -1 is none.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for several classes that are taken by pairs: a value for
        each class, from votes and confidence, or the values of the pairs.
    break_ties : bool, default=False
        Whether `predict` decides equal votes by confidence; otherwise the first class wins.
    random_state : int, RandomState or None, default=None
        Of the folds for `probability`.
    multi_class : {"ovo", "ovr"}, default="ovo"
        Several classes: each against each, as in SVC, or each against the rest.
    fit_intercept : bool, default=True
    max_time : float or None, default=None
        Limit on the seconds from the start of the solver, for all binary problems together and for
        the further fits of `probability`. Time in callbacks of the trace does not count. A fit that
        meets the limit issues a ConvergenceWarning.
    dtype : {"float32", "float64"}, default="float32"
        Precision of kernel values in the engine for large problems, which uses float64 for
        problems of at most 1,024 points anyway, and in its predictions. The engine for small
        problems ignores it: its kernel rows are float32, and it computes float64 values where the
        rounding of the rows could hide a violation above `tol`. Coefficients and gradient are
        float64 in every case, and the violation from float64 values is at most `tol`.
    split : bool, default=True
        Whether the engine for large problems solves groups of points apart if the kernel between
        them cannot be seen at `tol`.
    warm_start : bool, default=False
        Whether `fit` begins at the solution of the last fit, if that had the same classes in the
        same rows and proportional weights. The result is the same up to `tol` and takes less time.

    Attributes
    ----------
    classes_ : (n_classes,)
    class_weight_ : (n_classes,)
        Factors of C.
    support_ : (n_sv,) ints
        Rows with a coefficient that is not zero in one of the problems, sorted by class.
    support_vectors_ : (n_sv, d) array or CSR
        (0, 0) with kernel="precomputed" or a callable.
    dual_coef_ : (m, n_sv) array, CSR if the rows were
        y_i a_i. Two classes: m = 1. "ovr": m = n_classes. "ovo", as in SVC: m = n_classes - 1, for
        a support vector of class c its coefficients against the other classes in their order.
    intercept_ : (m,)
        Of the binary problems: 1, n_classes ("ovr"), or n_classes (n_classes - 1) / 2 ("ovo":
        classes 0 and 1, 0 and 2, ..., values are positive for the first).
    coef_ : (m, d)
        Normals of the problems' hyperplanes, only with kernel="linear".
    n_support_ : (n_classes,) ints
        Support vectors of each class.
    n_iter_ : (m,) ints
        Steps of one or two coordinates of each problem, and iterations of the interior-point
        method.
    fit_status_ : int
        0 if every problem was solved to `tol`, else 1 (and a ConvergenceWarning).
    shape_fit_ : tuple
        Shape of X.
    objective_, duality_gap_ : float
        Value of the dual, and by how much the primal is above it at most; sums over problems.
    violation_ : float
        Largest of the problems' violations. With `converged_` the violation from float64 kernel
        values is at most `tol`; after a limit `violation_` is from float64 values.
    converged_ : bool
    kernel_entries_ : int
        Kernel values computed in `fit`.
    notes_ : tuple of str
        Whether the interior-point method was used.
    timings_ : dict of str to float
        Seconds of "prepare", "solve" and, with `probability`, "calibrate".
    model_bytes_ : int
        What prediction keeps.
    n_features_in_ : int

    See Also
    --------
    DCSVC : Trains and predicts by clusters; approximate, and faster.

    Notes
    -----
    Binary problems with intercept of at most 2,000 points (500 if most columns have two
    values) are solved by `kbench.solvers.small`, larger ones by `kbench.solvers.solve_box_dual`;
    the result satisfies the same criterion. Linear and polynomial kernels of a rank far below the
    number of rows, and small problems of any semidefinite kernel after many steps, are solved by
    `kbench.solvers.interior_point` in 15 to 50 iterations, whatever C and the columns' scales are;
    where float64 cannot reach `tol` at such a C, the warning says "rounding".
    Small problems end at the optimum itself where that costs little beside the steps, or where a
    large C leaves a large duality gap.

    A fit to rows in chunks (kernel="linear") takes 128 bytes a row beside the rows, which it writes
    to disk and reads ten times an iteration. Its model is `coef_` and `intercept_`: support vectors
    are not kept, and there is no `support_vectors_`.

    Time is O(d) for each kernel value, of which there are about n for every support vector, and
    O(n) for each step of a small problem; memory `cache_size` and O(n d). Prediction costs
    O(n_sv (d + m)) a row.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
    Machines", ICML 2014.

    Examples
    --------
    `KernelSVC` where `SVC` was:

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from kbench.methods import KernelSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(MinMaxScaler(), KernelSVC())
    >>> grid = {"kernelsvc__C": [1.0, 10.0], "kernelsvc__gamma": ["scale", 0.1]}
    >>> search = GridSearchCV(model, grid, cv=3).fit(X[:1000], y[:1000])
    >>> search.score(X[1000:], y[1000:]) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **_CONSTRAINTS,
        "C": [*BOUND, *PENALTY],
        "verbose": ["verbose"],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "random_state": ["random_state"],
        "multi_class": [StrOptions({"ovr", "ovo"})],
        "fit_intercept": ["boolean"],
        "split": ["boolean"],
        "warm_start": ["boolean"],
    }

    _negative_weight_is_zero: ClassVar[bool] = True

    C: float | str = 1.0
    _: KW_ONLY
    kernel: str | Callable[[Any, Any], np.ndarray] = "rbf"
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    shrinking: bool = True
    probability: bool = False
    tol: float = 1e-3
    cache_size: float = 1000.0
    class_weight: dict | str | None = None
    verbose: bool = False
    max_iter: int = -1
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    random_state: Any = None
    multi_class: str = "ovo"
    fit_intercept: bool = True
    max_time: float | None = None
    dtype: str = "float32"
    split: bool = True
    warm_start: bool = False

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        """Solve the dual.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
            With kernel="linear" also `ChunkedRows`, which contain their labels, or a Dask array or
            dataframe.
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row; a weight of 2 is the row twice, 0 or less the row left out.
        trace : Trace, optional
            Receives the phases, and objective and violation while problems are solved.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, fewer than two classes, a precomputed matrix not square.
        """
        trace = Trace() if trace is None else trace
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            return self._fit_chunks(chunks, trace)
        self._normals = None
        with trace.phase("prepare"):
            require_dense_values(self.kernel, X)
            X, index, C = self._checked(X, y, sample_weight)
            data = self._data(X, index, C)
            key = joblib.hash(X) if self.warm_start else ""
        with trace.phase("solve"):
            deadline = Deadline(self.max_time, trace)
            solution, matrix = self._solve(data, key, deadline, trace)
        with trace.phase("prepare"):
            self._set_solution(data, solution, matrix)
            entries = 0 if matrix is None else matrix.n_entries
            self.kernel_entries_ = entries + solution.small_entries
            if callable(self.kernel) and isinstance(data.kernel, Precomputed):
                self.kernel_entries_ = len(index) ** 2  # once, before they were used
            self.class_weight_ = np.ones(len(self.classes_))
            if self.class_weight is not None:
                self.class_weight_ = class_weights(
                    self.class_weight, self.classes_, self.classes_[index]
                )
        self.timings_ = dict(trace.timings)
        self._last: LastFit | None = None
        if self.warm_start:
            self._last = LastFit(data.kernel, key, index, C, solution.coef, solution.results)
        self._calibrate(
            X,
            y,
            sample_weight,
            trace,
            deadline,
            verbose=False,
            warm_start=False,
            gamma=getattr(data.kernel, "gamma", self.gamma),
        )
        if self.verbose:
            print(
                f"KernelSVC: {len(solution.reasons)} problems, {self.n_iter_.sum()} steps, "
                f"{len(self.support_)} support vectors, violation {self.violation_:.2g}, "
                f"{self.timings_['solve']:.3g} s"
            )
        return self

    def _data(self, X: Any, index: np.ndarray, C: np.ndarray) -> Data:
        """The training set with its kernel, and `_gamma`."""
        if callable(self.kernel):
            values, fits = self._training_values(X)
            kernel: Any = Precomputed() if fits else WholeRowsKernel(self.kernel, X)
            self._gamma = 0.0
            return Data(values, index, bounded(C), kernel)
        kernel = self._kernel(X)
        self._gamma = float(getattr(kernel, "gamma", 0.0))
        return Data(X, index, bounded(C), kernel)

    def _set_solution(self, data: Data, solution: Solution, matrix: KernelMatrix | None) -> None:
        """Set the attributes that describe the solution, and the model that predicts."""
        support = np.flatnonzero(solution.coef.any(axis=0))
        support = support[np.argsort(data.labels[support], kind="stable")]
        coef = np.ascontiguousarray(solution.coef[:, support])
        require_finite(self, dual_coef_=coef, intercept_=solution.intercept)
        self.support_, self.dual_coef_ = support, like_rows(coef, data.X)
        self.n_support_ = np.bincount(data.labels[support], minlength=len(self.classes_))
        no_rows = isinstance(data.kernel, Precomputed | WholeRowsKernel)
        self.support_vectors_ = np.empty((0, 0)) if no_rows else data.X[support]
        self.intercept_, self.n_iter_ = solution.intercept, solution.n_iter
        self.notes_ = solution.notes
        self.objective_ = float(solution.objective.sum())
        self.duality_gap_ = float(solution.duality_gap.sum())
        self.violation_ = float(solution.violation.max())
        reasons = set(solution.reasons) - {"tol"}
        self.converged_, self.fit_status_ = not reasons, int(bool(reasons))
        rows = self._fit_rows if callable(self.kernel) else data.X
        self.shape_fit_ = getattr(rows, "shape", (len(data.labels),))
        if matrix is None and not is_dense_gaussian(data.kernel, data.X):
            matrix = data.matrix(self.dtype)
        self._machine: Any = (
            pair_expansion(data.kernel, data.X, support, coef, self.n_support_, matrix)
            if self._takes_pairs
            else shared_expansion(data.kernel, data.X, support, coef, matrix)
        )
        self.model_bytes_ = self._machine.nbytes
        if reasons:
            warn_of_limits(reasons, self, self.tol, self.max_iter)
        warn_of_unbounded(self.C, coef)

    def _rows_to_predict(self, X: Any) -> Any:
        return self._new_values(X) if callable(self.kernel) else super()._rows_to_predict(X)

    def _by_blocks(self, function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
        """Values of a function of rows, which a callable kernel gets in blocks."""
        check_is_fitted(self, msg=NOT_FITTED.format("SVC"))
        if not callable(self.kernel):
            return function(X)
        return np.concatenate([function(rows) for rows in self._row_blocks(X)])

    def _values_by_class(self, X: Any) -> np.ndarray:
        return self._decide_by_class(self._rows_to_predict(X))

    def _calibrated_values(self, X: Any) -> np.ndarray:
        decide = super()._decide
        return self._by_blocks(lambda rows: decide(self._rows_to_predict(rows)), X)

    def _decide_by_class(self, X: Any) -> np.ndarray:
        """Decision values (u, 1) of two classes, else (u, n_classes), for checked rows."""
        values = super()._decide(X)
        if self._takes_pairs:
            # Votes of the pairs, plus a monotonic function of their values in (-1/3, 1/3).
            return _ovr_decision_function(values < 0, -values, len(self.classes_))
        return values

    def _decide(self, X: Any) -> np.ndarray:
        if self._takes_pairs and self.decision_function_shape == "ovo":
            return super()._decide(X)
        return self._decide_by_class(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed values of the decision functions.

        Parameters
        ----------
        X : (u, d) array or CSR; with kernel="precomputed" (u, n_train)

        Returns
        -------
        (u,) float64 for two classes, positive for `classes_[1]`; else (u, n_classes), or, with
        decision_function_shape="ovo", (u, n_classes (n_classes - 1) / 2).
        """
        return self._by_blocks(super().decision_function, X)

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,).

        Raises
        ------
        ValueError
            break_ties=True with decision_function_shape="ovo".
        """
        check_is_fitted(self, msg=NOT_FITTED.format("SVC"))
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        if len(self.classes_) == 2 and self.fit_intercept:
            # A value of exactly 0 is the second class, as in SVC.
            return np.where(self.decision_function(X) >= 0.0, self.classes_[1:], self.classes_[:1])
        if not self._takes_pairs or self.break_ties:
            return super().predict(X)
        if (chunks := rows_in_chunks(X)) is not None:
            return np.concatenate([self.predict(block.X) for block in chunks.blocks()])

        def winners(rows: Any) -> np.ndarray:
            return self._machine.winners(self._rows_to_predict(rows), self.intercept_)

        return self.classes_[self._by_blocks(winners, X)]

    def to_sklearn(self) -> "SVC":
        """A fitted `sklearn.svm.SVC` with this solution, for programs that know that class.

        Its values are those of float64 sums, equal to these up to rounding.

        Raises
        ------
        NotFittedError
        ValueError
            The kernel is none of LIBSVM's ("linear", "poly", "rbf", "sigmoid", "precomputed"),
            or several classes are one against the rest.
        """
        check_is_fitted(self, msg=NOT_FITTED.format("SVC"))
        if self._normals is not None:
            raise ValueError(
                "KernelSVC.to_sklearn: a fit to rows in chunks keeps the hyperplanes `coef_`, not "
                "the support vectors of which SVC consists"
            )
        two = len(self.classes_) == 2
        if not (two or self._takes_pairs):
            raise ValueError(
                "KernelSVC.to_sklearn: several classes are solved one against the rest; SVC takes "
                "them by pairs, as multi_class='ovo' and fit_intercept=True do"
            )
        from sklearn.svm import SVC  # imports scipy.stats, half a second

        return fitted_peer(SVC, self, self.n_support_, -1.0 if two else 1.0)

    @property
    def coef_(self) -> Any:
        """Normals of the hyperplanes, (m, d); only with kernel="linear"."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self, msg=NOT_FITTED.format("SVC"))
        if self._normals is not None:
            return read_only(self._normals.copy())
        if not self._takes_pairs:
            return read_only(matmul(self.dual_coef_, self.support_vectors_))
        ends = np.concatenate([[0], np.cumsum(self.n_support_)])
        spans = [slice(a, b) for a, b in itertools.pairwise(ends)]
        V, coef = self.support_vectors_, self.dual_coef_
        coef = coef.toarray() if sp.issparse(coef) else coef
        normals = [
            matmul(coef[[b - 1], spans[a]], V[spans[a]]) + matmul(coef[[a], spans[b]], V[spans[b]])
            for a, b in self._pairs
        ]
        if not sp.issparse(V):
            return read_only(np.vstack(normals))
        return read_only(sp.vstack([like_rows(normal, V) for normal in normals], format="csr"))
