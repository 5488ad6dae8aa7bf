"""An estimator behind a learned metric, as one estimator."""

from dataclasses import KW_ONLY, dataclass
from inspect import signature
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kbench.metric.learned import LearnedMetric
from kbench.trace import Trace
from kbench.validated import fit_context


def _model_has(name: str) -> Any:
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)


@dataclass(eq=False, repr=False)
class WithMetric(MetaEstimatorMixin, BaseEstimator):
    """Learn a metric, then fit an estimator to the transformed rows.

    This estimator differs from `make_pipeline(LearnedMetric(), model)` in that the model's phases
    and intermediate models are reported to the trace, and that the model's learnt attributes
    (`n_support_`, `objective_`, ...) are also attributes of this estimator.

    Parameters
    ----------
    estimator : estimator
        Any classifier or regressor.
    metric : LearnedMetric or None, default=None
        None stands for `LearnedMetric()`.
    random_state : int, RandomState or None, default=None
        Seed of the metric if `metric.random_state` is None.

    Attributes
    ----------
    metric_ : LearnedMetric
    estimator_ : the fitted model
    timings_ : dict of str to float
        Seconds of "metric" and of the model's phases.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from kbench.metric import WithMetric
    >>> X, y = load_digits(return_X_y=True)
    >>> model = WithMetric(KNeighborsClassifier(), random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "metric": [HasMethods(["fit", "transform"]), None],
        "random_state": ["random_state"],
    }

    estimator: Any
    metric: LearnedMetric | None = None
    _: KW_ONLY
    random_state: Any = None

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None, **fit_params: Any) -> Self:
        """Fit metric and model to rows X : (n, d), dense or CSR, and targets y.

        Parameters
        ----------
        trace : Trace, optional
            Receives the metric's held-out errors, and the model's reports if it takes a trace.
        **fit_params
            Given to the model's `fit`.
        """
        trace = Trace() if trace is None else trace
        metric = LearnedMetric() if self.metric is None else clone(self.metric)
        if metric.random_state is None:
            seed = check_random_state(self.random_state).randint(2**31)
            metric.set_params(random_state=seed)
        if metric.task == "auto":
            task = "classification" if is_classifier(self.estimator) else "regression"
            metric.set_params(task=task)
        with trace.phase("metric"):
            self.metric_ = metric.fit(X, y, trace=trace)
            Z = metric.mapped(X)
        self.estimator_ = clone(self.estimator)
        if "trace" in signature(self.estimator_.fit).parameters:
            fit_params["trace"] = trace
        self.estimator_.fit(Z, y, **fit_params)
        self.timings_ = dict(trace.timings)
        return self

    def __getattr__(self, name: str) -> Any:
        """Learnt attributes of the model."""
        if name.endswith("_") and not name.startswith("_") and "estimator_" in vars(self):
            return getattr(self.estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def n_features_in_(self) -> int:
        check_is_fitted(self, "metric_")
        return self.metric_.n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        return self.metric_.feature_names_in_

    @property
    def model_bytes_(self) -> int:
        """Bytes that prediction keeps."""
        return self.estimator_.model_bytes_ + self.metric_.nbytes_

    def _transformed(self, X: Any) -> Any:
        check_is_fitted(self, "estimator_")
        return self.metric_.mapped(X)

    def predict(self, X: Any) -> Any:
        """Predictions of the model for rows X : (u, d)."""
        Z = self._transformed(X)
        return self.estimator_.predict(Z)

    @available_if(_model_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Decision values of the model for rows X : (u, d)."""
        Z = self._transformed(X)
        return self.estimator_.decision_function(Z)

    @available_if(_model_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of the model for rows X : (u, d)."""
        Z = self._transformed(X)
        return self.estimator_.predict_proba(Z)

    @available_if(_model_has("score"))
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R^2 of a regressor."""
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        Z = self._transformed(X)
        return self.estimator_.score(Z, y, **weights)

    def __sklearn_tags__(self) -> Tags:
        tags = get_tags(self.estimator)
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = False
        return tags
