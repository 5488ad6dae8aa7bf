"""Kernel ridge regression, and classification by it: the base of all ridge estimators.

    min_f  ||f - y||^2 + alpha ||f||^2,    f = sum_i c_i k(x_i, .),    (G + alpha I) c = y

With weights w of the rows, ||f - y||^2 is sum_i w_i (f(x_i) - y_i)^2 and, for S = diag(sqrt w),
c = S b with (S G S + alpha I) b = S y. G is the kernel matrix or an approximation of it (Si, Hsieh
and Dhillon, JMLR 18, 2017, section 6.3). As in that paper there is no intercept, unless
`fit_intercept` asks for the (weighted) mean of the targets; f then fits the targets minus the mean.
Classifiers fit targets -1 and +1, one-vs-rest for more than two classes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from kbench import class_labels
from kbench.approximation import Machine, sampled_rows
from kbench.chunked import Block, ChunkedRows
from kbench.errors import warn
from kbench.kernels import Kernel
from kbench.kernels.constraints import KernelParameters, kernel_constraints
from kbench.methods.base.chunk_scores import ChunkScores, rows_in_chunks
from kbench.methods.base.finished_fit import require_finite
from kbench.methods.base.limits import limit_text, refuse_max_time
from kbench.methods.base.penalty import ALPHA_CONSTRAINT, chosen_alpha
from kbench.methods.base.probability import Probabilities
from kbench.methods.base.survey import ClassTargets, RealTargets, Survey
from kbench.methods.base.training_kernel import training_kernel
from kbench.methods.base.weights import (
    checked_weights,
    require_weight_range,
    require_weighted_classes,
)
from kbench.methods.base.widths import require_one_width, scaled_new_rows, scaled_rows, with_widths
from kbench.prediction.flops import CountedPrediction
from kbench.trace import Deadline, Trace
from kbench.validated import TakesSparseRows, fit_context, usual, validate_data


@dataclass(eq=False, repr=False, kw_only=True)
class RidgeEstimator(TakesSparseRows, CountedPrediction, BaseEstimator, ABC):
    """Base class of the ridge estimators; a subclass has `__init__` and `_solve`.

    Parameters
    ----------
    fit_intercept : bool, default=False
        Whether to subtract the mean of the targets before the fit and to add it to the estimates.
        The papers' models have no intercept: f tends to 0 away from the rows, and the ridge
        shrinks f to 0, so that targets whose mean is large beside their deviation are fitted
        poorly. With an intercept the estimates for y + c are those for y plus c.

    Attributes
    ----------
    intercept_ : (m,) float64
        Mean of each of the m targets, only with fit_intercept=True.
    alpha_ : float
        The ridge that was used.
    timings_ : dict of str to float
        Seconds by phase.
    model_bytes_ : int
        Bytes that prediction needs.
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": ALPHA_CONSTRAINT,
        "fit_intercept": ["boolean", None],
        **usual("probability"),
    }

    fit_intercept: bool = False

    # The decision values of a classifier estimate the targets -1 and +1, so that the runner records
    # their regression errors, too.
    fits_targets: ClassVar[bool] = True

    @abstractmethod
    def _solve(self, X: Any, Y: np.ndarray, trace: Trace) -> Machine:
        """The function fitted to checked rows X : (n, d) and targets Y : (n, m) float64.

        Subclasses that take weights of rows, (n,), have a further argument `weight`.
        """

    def _without_intercept(self, Y: np.ndarray, sample_weight: Any) -> np.ndarray:
        """Targets Y : (n, m) minus `intercept_`, which is set."""
        if not self.fit_intercept:
            return Y
        weight = None if sample_weight is None else checked_weights(sample_weight, len(Y))
        self.intercept_ = np.average(Y, axis=0, weights=weight)
        return Y - self.intercept_

    def _fit(self, X: Any, Y: np.ndarray, trace: Trace, sample_weight: Any = None) -> Self:
        weights = {}
        if sample_weight is not None:
            weights["weight"] = checked_weights(sample_weight, len(Y))
            require_weight_range(weights["weight"])
        self.__dict__.pop("_stream", None)  # an earlier `partial_fit` may have set it
        self._machine = self._solve(X, Y, trace, **weights)
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        return self

    @property
    def accepts_chunks(self) -> bool:
        """Whether `fit` takes `ChunkedRows` with these parameters."""
        return not getattr(self, "_wants_probabilities", False) and self._sample_size() is not None

    def _sample_size(self) -> int | None:
        """Size of the sample that `_solve_chunks` needs; None if a fit needs all rows in memory."""
        return None

    def _solve_chunks(self, rows: ChunkedRows, survey: Survey, seed: int, trace: Trace) -> Machine:
        """The function fitted to rows in chunks; `survey` has a sample of them.

        seed : seed of all random draws
        """
        raise NotImplementedError

    def _fit_chunks(
        self, rows: ChunkedRows, targets: ClassTargets | RealTargets, trace: Trace
    ) -> None:
        if not self.accepts_chunks:
            raise ValueError(
                f"{type(self).__name__} with these parameters needs all rows in memory, not in "
                "chunks"
            )
        refuse_max_time(self)
        with trace.phase("survey"):
            seed = check_random_state(getattr(self, "random_state", None)).randint(2**31)
            survey = Survey(rows, targets, self._sample_size() or 0, seed)
            if self.fit_intercept:
                self.intercept_ = targets.subtract_mean()
        self.n_features_in_ = rows.n_features
        self._machine = self._solve_chunks(rows, survey, seed, trace)
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)

    def _values(self, X: Any) -> np.ndarray:
        """Values of the fitted function at rows X : (u, d), not yet checked; (u, m)."""
        check_is_fitted(self)
        if (chunks := rows_in_chunks(X)) is not None:
            return np.concatenate([self._values(block.X) for block in chunks.blocks()])
        X = validate_data(self, X, reset=False)
        values = self._machine(scaled_new_rows(self, X))
        intercept = getattr(self, "intercept_", None)
        return values if intercept is None else values + intercept


class KernelRidgeEstimator(KernelParameters, RidgeEstimator):
    """Base class of the ridge estimators that have the parameters of a kernel themselves."""

    _parameter_constraints: ClassVar[dict] = {
        **RidgeEstimator._parameter_constraints,
        **with_widths(kernel_constraints("of_rows", "positive_semidefinite", function=True)),
    }

    alpha: float | str

    def _fit(self, X: Any, Y: np.ndarray, trace: Trace, sample_weight: Any = None) -> Self:
        weight = None if sample_weight is None else checked_weights(sample_weight, len(Y))
        with trace.phase("solve"):
            X = scaled_rows(self, X)
            self.alpha_ = self._choose_alpha(X, Y, weight)
        return super()._fit(X, Y, trace, sample_weight)

    def _fit_chunks(
        self, rows: ChunkedRows, targets: ClassTargets | RealTargets, trace: Trace
    ) -> None:
        require_one_width(self)
        super()._fit_chunks(rows, targets, trace)

    def _choose_alpha(self, X: Any, Y: np.ndarray, weight: np.ndarray | None) -> Any:
        """The ridge for rows X : (n, d) and targets Y : (n, m)."""
        return chosen_alpha(self.alpha, lambda: self._kernel(X), X, Y, weight)

    def _kernel(self, X: Any) -> Kernel:
        return training_kernel(self, X)


class RidgeRegressorMixin(ChunkScores, RegressorMixin):
    """`fit` and `predict` for one or several real targets."""

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, *, trace: Trace | None = None) -> Self:
        """Fit rows X : (n, d), dense or CSR, to targets y : (n,) or (n, m).

        X may be `ChunkedRows`, which contain their targets, where `accepts_chunks` is true.

        Raises
        ------
        ValueError
            A parameter is out of range.
        """
        return self._fit_to_targets(X, y, None, trace)

    def _fit_to_targets(self, X: Any, y: Any, sample_weight: Any, trace: Trace | None) -> Self:
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            targets = RealTargets()
            self._fit_chunks(chunks, targets, Trace() if trace is None else trace)
            self._one_target = targets.is_single
            require_finite(self)
            return self
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True)
        Y = np.asarray(y, np.float64)
        self._one_target = Y.ndim == 1
        trace = Trace() if trace is None else trace
        Y = self._without_intercept(Y.reshape(len(Y), -1), sample_weight)
        self._fit(X, Y, trace, sample_weight)
        require_finite(self, X)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Estimates at rows X : (u, d); (u,) or (u, m) float64."""
        values = self._values(X)
        return values[:, 0] if self._one_target else values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class RidgeClassifierMixin(ChunkScores, Probabilities, ClassifierMixin):
    """`fit`, `decision_function` and `predict` for classes, coded as targets -1 and +1.

    Parameters
    ----------
    probability : bool, default=False
        As in `KernelSVC`.
    """

    probability: bool = False

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, *, trace: Trace | None = None) -> Self:
        """Fit rows X : (n, d), dense or CSR, to labels y : (n,).

        X may be `ChunkedRows`, which contain their labels, where `accepts_chunks` is true.

        Raises
        ------
        ValueError
            A parameter is out of range, or y has fewer than two classes.
        """
        return self._fit_to_targets(X, y, None, trace)

    def _fit_to_targets(self, X: Any, y: Any, sample_weight: Any, trace: Trace | None) -> Self:
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            targets = ClassTargets()
            self._fit_chunks(chunks, targets, Trace() if trace is None else trace)
            self.classes_ = targets.classes
            return self
        X, y = validate_data(self, X, y)
        self.classes_, index = class_labels.encode(y)
        class_labels.require_two(len(self.classes_))
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, len(index))
            require_weighted_classes(self.classes_, index, sample_weight)
        trace = Trace() if trace is None else trace
        # Models that are solved directly have no `max_time`.
        deadline = Deadline(self.max_time, trace) if hasattr(self, "max_time") else None
        signs = class_labels.signs(index, len(self.classes_))
        self._fit(X, self._without_intercept(signs, sample_weight), trace, sample_weight)
        self._calibrate(X, y, sample_weight, trace, deadline)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Estimates of the targets -1 and +1 at rows X : (u, d).

        Returns
        -------
        (u,) float64 for two classes, positive for `classes_[1]`; else (u, n_classes), one-vs-rest
        """
        values = self._values(X)
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,)."""
        values = self.decision_function(X)
        return class_labels.decode(self.classes_, values)


class _TakesWeights:
    """Mixin whose `fit` takes `sample_weight`; it precedes a mixin from above among the bases."""

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        """Fit rows X : (n, d), dense or CSR, to targets y : (n,) or (n, m), or labels y : (n,).

        X may be `ChunkedRows`, which contain their targets, where `accepts_chunks` is true.
        `sample_weight` : (n,) are weights of the squared errors; a weight of 2 equals two copies.

        Raises
        ------
        ValueError
            A parameter is out of range, a weight negative, or there are fewer than two classes.
        """
        fitted: Self = self._fit_to_targets(X, y, sample_weight, trace)  # type: ignore[attr-defined]
        return fitted


class WeightedRidgeRegressorMixin(_TakesWeights, RidgeRegressorMixin):
    """`RidgeRegressorMixin` for models that take weights of rows."""


class WeightedRidgeClassifierMixin(_TakesWeights, RidgeClassifierMixin):
    """`RidgeClassifierMixin` for models that take weights of rows."""


def compared_rows(X: Any, error_rows: int) -> np.ndarray:
    """Indices (min(n, error_rows),) of rows of X : (n, d) on which `kernel_error_` is computed.

    They depend on n alone, so that all methods and seeds are compared on the same rows.
    """
    return sampled_rows(X.shape[0], error_rows, np.random.RandomState(0))


class SystemResult(Protocol):
    """How the solution of a linear system ended: a `CGResult`, or a `RidgeRecord` of chunks."""

    @property
    def residual(self) -> np.ndarray: ...

    @property
    def converged(self) -> bool: ...

    @property
    def stop_reason(self) -> str: ...


def warn_unconverged(result: SystemResult, estimator: Any) -> None:
    """ConvergenceWarning if conjugate gradients stopped before they reached `tol`."""
    if not result.converged:
        # The systems are positive definite, so only rounding errors can make one indefinite.
        is_indefinite = result.stop_reason == "indefinite"
        reason = "rounding errors" if is_indefinite else limit_text(estimator, result.stop_reason)
        warn(
            f"stopped by {reason} at a residual of "
            f"{result.residual.max():.2g}, above tol={estimator.tol:g}; "
            "the model is no worse than a constant",
            ConvergenceWarning,
        )


def sample_targets(survey: Survey) -> np.ndarray:
    """Targets of the m functions at the s rows of the sample; (s, m) float64."""
    targets = survey.targets
    return targets.matrix(targets.encode(Block(survey.sample, survey.sample_y, "the sample")))
