"""Base of the support vector classifiers that replace those of `sklearn.svm`."""

import itertools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.kernels.functions.precomputed import Precomputed
from kbench.methods.base.box_svc import BoxSVC
from kbench.methods.base.chunk_scores import rows_in_chunks
from kbench.methods.base.training_kernel import require_dense_values
from kbench.methods.base.weights import class_weights
from kbench.methods.base.widths import has_widths, require_one_width
from kbench.methods.exact.callable_kernel import EXACT_CONSTRAINTS, TakesAnyRows, WholeRowsKernel
from kbench.methods.exact.expansions import is_dense_gaussian, pair_expansion, shared_expansion
from kbench.methods.exact.kernel_svc_fit import Solution, TrainingSet
from kbench.methods.exact.svc_conventions import NOT_FITTED, finite_C, freeze, match_rows
from kbench.methods.exact.to_sklearn import sklearn_estimator
from kbench.trace import Deadline, Trace
from kbench.validated import choice, fit_context, usual


class ExactSVC(TakesAnyRows, BoxSVC):
    """Base of classifiers that solve exact duals of two classes: of each pair of classes or, with
    multi_class="ovr", of each class against the rest.

    A subclass has `_solve`, and in `_sklearn_class` the name of the class of scikit-learn that it
    replaces.
    """

    _sklearn_class: ClassVar[str]
    sees_unweighted_rows: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        **EXACT_CONSTRAINTS,
        "decision_function_shape": [choice("ovr", "ovo")],
        "break_ties": ["boolean"],
        **usual("class_weight", "probability", "random_state"),
    }

    decision_function_shape: str
    break_ties: bool
    # `KernelSVC` has these as parameters; in other subclasses the values are fixed.
    multi_class: str = "ovo"
    fit_intercept: bool = True
    warm_start: bool = False

    # (m, d) normals of the hyperplanes after a fit to rows in chunks, which keeps no support
    # vectors; otherwise None.
    _normals: np.ndarray | None = None

    @property
    def _takes_pairs(self) -> bool:
        """Whether there are several classes, taken by pairs."""
        return self.multi_class == "ovo" and len(self.classes_) > 2

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """Class numbers (a, b), a < b, of the problems, in the order of `intercept_`."""
        return list(itertools.combinations(range(len(self.classes_)), 2))

    def _signs(self, index: np.ndarray) -> np.ndarray:
        if not self._takes_pairs:
            return super()._signs(index)
        return np.column_stack([1.0 * (index == a) - 1.0 * (index == b) for a, b in self._pairs])

    @fit_context(prefer_skip_nested_validation=True)
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
            Multiplies C row by row; a weight of 2 equals two copies; 0 or less omits the row.
        trace : Trace, optional
            Receives the phases, and objective and violation while problems are solved.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range, there are fewer than two classes, or a precomputed
            matrix is not square and symmetric.
        """
        trace = Trace() if trace is None else trace
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            require_one_width(self)
            return self._fit_chunks(chunks, trace)
        self._normals = None
        with trace.phase("prepare"):
            require_dense_values(self.kernel, X)
            X, index, C = self._checked(X, y, sample_weight)
            data = self._training_set(X, index, C)
        with trace.phase("solve"):
            deadline = Deadline(self.max_time, trace)
            solution, matrix = self._solve(data, deadline, trace)
        with trace.phase("prepare"):
            self._set_solution(data, solution, matrix)
            if has_widths(self.gamma):
                self.support_vectors_ = X[self.support_]  # before the widths scaled them
            matrix_entries = 0 if matrix is None else matrix.n_entries
            self.kernel_entries_ = matrix_entries + solution.small_entries
            if callable(self.kernel) and isinstance(data.kernel, Precomputed):
                self.kernel_entries_ = len(index) ** 2  # all values were computed in advance
            self.class_weight_ = np.ones(len(self.classes_))
            if self.class_weight is not None:
                self.class_weight_ = class_weights(
                    self.class_weight, self.classes_, self.classes_[index]
                )
        self.timings_ = dict(trace.timings)
        self._keep_for_warm_start(data, solution)
        # The fits for probabilities start afresh, with the kernel width of this fit.
        overrides: dict[str, Any] = {"verbose": False}
        if not has_widths(self.gamma):
            overrides["gamma"] = getattr(data.kernel, "gamma", self.gamma)
        if self.warm_start:
            overrides["warm_start"] = False
        self._calibrate(X, y, sample_weight, trace, deadline, **overrides)
        if self.verbose:
            print(
                f"{type(self).__name__}: {len(solution.reasons)} problems, "
                f"{self.n_iter_.sum()} steps, "
                f"{len(self.support_)} support vectors, violation {self.violation_:.2g}, "
                f"{self.timings_['solve']:.3g} s"
            )
        return self

    @abstractmethod
    def _solve(
        self, data: TrainingSet, deadline: Deadline, trace: Trace
    ) -> tuple[Solution, KernelMatrix | None]:
        """Solutions of all problems, and the matrix of the large-problem solver, if used."""

    def _keep_for_warm_start(self, data: TrainingSet, solution: Solution) -> None:
        """Keep the solution, if `warm_start` asks for it, so that the next fit can start there."""

    def _training_set(self, X: Any, index: np.ndarray, C: np.ndarray) -> TrainingSet:
        """The training set with its kernel."""
        X, kernel = self._training_kernel(X)
        return TrainingSet(X, index, finite_C(C), kernel)

    def _set_solution(
        self, data: TrainingSet, solution: Solution, matrix: KernelMatrix | None
    ) -> None:
        """Set the attributes that describe the solution, and the model that predicts."""
        has_coefficient: Any = solution.coef.any(axis=0)
        support = data.order[has_coefficient[data.order]]
        coef = np.ascontiguousarray(solution.coef[:, support])
        self.support_, self.dual_coef_ = support, match_rows(coef, data.X)
        self.n_support_ = np.bincount(data.labels[support], minlength=len(self.classes_))
        has_no_rows = isinstance(data.kernel, Precomputed | WholeRowsKernel)
        self.support_vectors_ = np.empty((0, 0)) if has_no_rows else data.X[support]
        self.intercept_, self.n_iter_ = solution.intercept, solution.n_iter
        self.notes_ = solution.notes
        self.objective_ = sum(solution.objective.tolist())
        self.duality_gap_ = sum(solution.duality_gap.tolist())
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
        self._warn(reasons)

    def _set_constant(self, winner: np.ndarray) -> None:
        """Make all coefficients 0, so that intercepts alone predict the class `winner` : (1,)."""
        self.dual_coef_ = 0.0 * self.dual_coef_
        self._machine.coef = 0.0 * self._machine.coef
        self.intercept_ = self._signs(winner)[0]

    def _rows_to_predict(self, X: Any) -> Any:
        return self._new_values(X) if callable(self.kernel) else super()._rows_to_predict(X)

    def _apply_by_blocks(self, function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
        """Values of a function of rows, which a callable kernel gets in blocks."""
        check_is_fitted(self, msg=NOT_FITTED.format(self._sklearn_class))
        if not callable(self.kernel):
            return function(X)
        return np.concatenate([function(rows) for rows in self._row_blocks(X)])

    def _values_by_class(self, X: Any) -> np.ndarray:
        return self._decide_by_class(self._rows_to_predict(X))

    def _calibrated_values(self, X: Any) -> np.ndarray:
        decide = super()._decide
        return self._apply_by_blocks(lambda rows: decide(self._rows_to_predict(rows)), X)

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
        return self._apply_by_blocks(super().decision_function, X)

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,).

        Raises
        ------
        ValueError
            break_ties=True with decision_function_shape="ovo".
        """
        check_is_fitted(self, msg=NOT_FITTED.format(self._sklearn_class))
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        if len(self.classes_) == 2 and self.fit_intercept:
            # A decision value of exactly 0 means the second class, as in SVC.
            return np.where(self.decision_function(X) >= 0.0, self.classes_[1:], self.classes_[:1])
        if not self._takes_pairs or self.break_ties:
            return super().predict(X)
        if (chunks := rows_in_chunks(X)) is not None:
            return np.concatenate([self.predict(block.X) for block in chunks.blocks()])

        def winners(rows: Any) -> np.ndarray:
            return self._machine.winners(self._rows_to_predict(rows), self.intercept_)

        return self.classes_[self._apply_by_blocks(winners, X)]

    def to_sklearn(self) -> Any:
        """A fitted estimator of scikit-learn with this solution, for programs that know its class.

        The estimator sums in float64, so that its values equal this model's up to rounding.

        Raises
        ------
        NotFittedError
        ValueError
            The kernel is not "linear", "poly", "rbf", "sigmoid" or "precomputed", those of LIBSVM,
            or several classes are solved one against the rest.
        """
        check_is_fitted(self, msg=NOT_FITTED.format(self._sklearn_class))
        if self._normals is not None:
            raise ValueError(
                "KernelSVC.to_sklearn: a fit to rows in chunks keeps the hyperplanes `coef_`, not "
                "the support vectors of which SVC consists"
            )
        is_binary = len(self.classes_) == 2
        if not (is_binary or self._takes_pairs):
            raise ValueError(
                "KernelSVC.to_sklearn: several classes are solved one against the rest; SVC takes "
                "them by pairs, as multi_class='ovo' and fit_intercept=True do"
            )
        import sklearn.svm  # imports scipy.stats, half a second

        sklearn_class = getattr(sklearn.svm, self._sklearn_class)
        return sklearn_estimator(sklearn_class, self, self.n_support_, -1.0 if is_binary else 1.0)

    @property
    def coef_(self) -> Any:
        """Normals of the hyperplanes, (m, d); only with kernel="linear"."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self, msg=NOT_FITTED.format(self._sklearn_class))
        if self._normals is not None:
            return freeze(self._normals.copy())
        if not self._takes_pairs:
            return freeze(matmul(self.dual_coef_, self.support_vectors_))
        offsets = np.concatenate([[0], np.cumsum(self.n_support_)])
        spans = [slice(a, b) for a, b in itertools.pairwise(offsets)]
        V, coef = self.support_vectors_, self.dual_coef_
        coef = coef.toarray() if sp.issparse(coef) else coef
        normals = [
            matmul(coef[[b - 1], spans[a]], V[spans[a]]) + matmul(coef[[a], spans[b]], V[spans[b]])
            for a, b in self._pairs
        ]
        if not sp.issparse(V):
            return freeze(np.vstack(normals))
        return freeze(sp.vstack([match_rows(normal, V) for normal in normals], format="csr"))
