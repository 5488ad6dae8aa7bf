"""Scores that `metrics=[NAME, ...]` adds to the scores of `metrics.py`, and scores of estimators
that predict a quantile.

A name is one of `NAMED_SCORES`, `top_K_accuracy`, `pinball_loss_Q`, a scorer of scikit-learn, or
`package.module:function` of (y_true, y_pred), which is imported in the worker. scikit-learn
computes every score that it has. Targets and predictions of regressors are in the unit of the
target. Classes are -1 and +1 in a binary problem, otherwise 0, 1, ...
"""

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np

from kbench.errors import ConfigError, quoted, with_type
from kbench.mistyped import nearest
from kbench.run.results import metrics
from kbench.run.results.metrics import METRICS, Array
from kbench.run.results.user_functions import load_function


class AbsentError(Exception):
    """A run has no such score; the text of the exception gives the reason."""


@dataclass(frozen=True)
class Predictions:
    """Test rows and their predictions by a fitted estimator; y and labels in the target's unit."""

    task: str
    estimator: Any
    X: Any  # (n, d)
    y: Array  # (n,)
    labels: Array  # (n,) predictions

    @property
    def classes(self) -> Array:
        return np.array([-1, 1] if self.task == "outlier" else self.estimator.classes_)

    @functools.cached_property
    def probabilities(self) -> Array:
        """(n, n_classes) float64; raises AbsentError if the estimator has no probabilities."""
        if not hasattr(self.estimator, "predict_proba"):
            raise AbsentError(
                f"{type(self.estimator).__name__} has no probabilities; "
                "method.calibration=sigmoid adds them"
            )
        return np.asarray(self.estimator.predict_proba(self.X), np.float64)

    @functools.cached_property
    def decisions(self) -> Array:
        """(n,) for two classes, (n, n_classes) for more; raises AbsentError if there are none."""
        scores = metrics.class_scores(self.estimator, self.X)
        if scores is None:
            raise AbsentError(f"{type(self.estimator).__name__} has no scores of classes")
        return scores

    @property
    def quantile(self) -> float:
        """The quantile that the estimator predicts; raises AbsentError if it has none."""
        quantile = _declared_quantile(self.estimator)
        if isinstance(quantile, bool) or not isinstance(quantile, Real):
            raise AbsentError(
                f"{type(self.estimator).__name__} predicts no single quantile; pinball_loss_0.9 "
                "scores any method as a prediction of the 0.9-quantile"
            )
        return float(quantile)


def _declared_quantile(estimator: Any) -> Any:
    """The quantile in the parameters of an estimator, of its steps or of its inner estimators.

    By scikit-learn's conventions the quantile is the parameter `quantile` or `alpha`. If the same
    object has a parameter `loss`, `strategy` or `objective`, its value has to be "quantile".
    """
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name in params:
        prefix = name.removesuffix(name.rpartition("__")[2])
        losses = [params.get(prefix + key) for key in ("loss", "strategy", "objective")]
        is_quantile = "quantile" in losses
        names = ("quantile", "alpha") if is_quantile else ("quantile",)
        if is_quantile or not any(isinstance(loss, str) for loss in losses):
            for parameter in names:
                if params.get(prefix + parameter) is not None:
                    return params[prefix + parameter]
    return None


def _log_loss(test: Predictions) -> float:
    from sklearn.metrics import log_loss

    return float(log_loss(test.y, test.probabilities, labels=test.classes))


def _brier_score(test: Predictions) -> float:
    from sklearn.metrics import brier_score_loss

    if len(test.classes) == 2:
        return float(brier_score_loss(test.y, test.probabilities[:, 1], pos_label=test.classes[1]))
    # scikit-learn before 1.7 lacks the Brier score of more than two classes.
    return float(
        np.mean(np.sum((test.probabilities - (test.y[:, None] == test.classes)) ** 2, axis=1))
    )


def _calibration_error(test: Predictions) -> float:
    curves = metrics.reliability(test.y, test.probabilities, test.classes)
    if not curves:
        raise AbsentError("the probabilities are not finite")
    accuracy, fraction = (np.asarray(curve["value"]) for curve in curves)
    return float(np.sum(fraction * np.abs(accuracy - curves[0]["x"])))


def _mape(test: Predictions) -> float:
    from sklearn.metrics import mean_absolute_percentage_error

    return float(mean_absolute_percentage_error(test.y, test.labels))


def _pinball_loss(test: Predictions, quantile: float | None = None) -> float:
    from sklearn.metrics import mean_pinball_loss

    quantile = test.quantile if quantile is None else quantile
    return float(mean_pinball_loss(test.y, test.labels, alpha=quantile))


def _coverage(test: Predictions) -> float:
    """Fraction of the targets that are at most the prediction."""
    return float(np.mean(test.y <= test.labels))


def _coverage_error(test: Predictions) -> float:
    return abs(_coverage(test) - test.quantile)


def _top_accuracy(test: Predictions, k: int) -> float:
    from sklearn.metrics import top_k_accuracy_score

    if not 1 <= k < len(test.classes):
        raise AbsentError(f"there are {len(test.classes)} classes")
    return float(top_k_accuracy_score(test.y, test.decisions, k=k, labels=test.classes))


@dataclass(frozen=True)
class AddedScore:
    """A score that `metrics=[...]` names, or one of `QUANTILE_SCORES`."""

    name: str
    direction: Literal["max", "min", ""]  # "" if no value is better than another
    for_classifiers: bool | None  # False: for regressors; None: for both
    function: Callable[[Predictions], float]


NAMED_SCORES = {
    score.name: score
    for score in (
        AddedScore("log_loss", "min", True, _log_loss),
        AddedScore("brier_score", "min", True, _brier_score),
        AddedScore("calibration_error", "min", True, _calibration_error),
        AddedScore("mape", "min", False, _mape),
        AddedScore("coverage_error", "min", False, _coverage_error),
    )
}

# Columns of rows whose estimator predicts a quantile.
QUANTILE_SCORES = (
    AddedScore("pinball", "min", False, _pinball_loss),
    AddedScore("coverage", "", False, _coverage),
)

# Scores that are columns, which rows have without `metrics=[...]`.
SCORE_COLUMNS = frozenset(
    [
        *(spec.name for task in METRICS.values() for spec in task),
        *(score.name for score in QUANTILE_SCORES),
    ]
)


def added_score(name: str) -> AddedScore:
    """The score of a name; nothing is imported until its function is called.

    Larger values of a scorer are better. Larger values of a user's own function are also better,
    unless its name ends in _loss, _error or _deviance, as scikit-learn's names of losses do.

    Raises ConfigError: the name has none of the forms.
    """
    if name in NAMED_SCORES:
        return NAMED_SCORES[name]
    if match := re.fullmatch(r"top_(\d+)_accuracy", name):
        return AddedScore(name, "max", True, functools.partial(_top_accuracy, k=int(match[1])))
    if match := re.fullmatch(r"pinball_loss_(0?\.\d+)", name):
        function = functools.partial(_pinball_loss, quantile=float(match[1]))
        return AddedScore(name, "min", False, function)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name):
        is_loss = name.endswith(("_loss", "_error", "_deviance"))
        function = functools.partial(_function_value, name)
        return AddedScore(name, "min" if is_loss else "max", None, function)
    if re.fullmatch(r"[a-z]\w*", name):
        return AddedScore(name, "max", None, functools.partial(_scorer_value, name))
    raise _unknown(name)


def _unknown(name: str, hint: str = "") -> ConfigError:
    return ConfigError(
        f"metrics names {name!r}{hint}, should be {', '.join(NAMED_SCORES)}, top_3_accuracy, "
        "pinball_loss_0.9, a scorer of scikit-learn, or package.module:function"
    )


def new_scores(names: Iterable[str]) -> list[AddedScore]:
    """The scores of `metrics` that are not columns."""
    return [added_score(name) for name in dict.fromkeys(names) if name not in SCORE_COLUMNS]


def check(names: Iterable[str]) -> str | None:
    """The error of the first wrong name of `metrics`, or None; imports the functions."""
    for score in new_scores(names):
        try:
            if ":" in score.name:
                load_function("metrics", score.name)
            elif score.for_classifiers is None:
                _scorer(score.name)
        except ConfigError as error:
            return str(error)
    return None


def quantile_columns(test: Predictions) -> dict[str, float]:
    """The columns `QUANTILE_SCORES`; empty for an estimator that predicts no quantile."""
    with contextlib.suppress(AbsentError):
        if test.task == "regression" and test.quantile is not None:
            return {score.name: score.function(test) for score in QUANTILE_SCORES}
    return {}


def _wrong_task(task: str) -> str:
    estimators = {"regression": "regressors", "outlier": "outlier detectors"}
    return f"it is not a score of {estimators.get(task, 'classifiers')}"


def measured_scores(
    names: Iterable[str], test: Predictions
) -> tuple[dict[str, float | None], list[str]]:
    """The added scores of a run by name, None for an absent one, and a line for each reason."""
    values: dict[str, float | None] = {}
    reasons: dict[str, list[str]] = {}
    quantile = QUANTILE_SCORES if test.task == "regression" else ()
    task_scores = {spec.name for spec in (*METRICS[test.task], *quantile)}
    if other_tasks := [
        name for name in dict.fromkeys(names) if name in SCORE_COLUMNS - task_scores
    ]:
        reasons[_wrong_task(test.task)] = other_tasks
    for score in new_scores(names):
        values[score.name] = None
        is_classification = test.task in ("binary", "multiclass")
        fits_task = test.task != "outlier" and score.for_classifiers == is_classification
        try:
            if score.for_classifiers is not None and not fits_task:
                raise AbsentError(_wrong_task(test.task))
            value = score.function(test)
            if not math.isfinite(value):
                raise AbsentError(f"it is {value}")
            values[score.name] = value
        except MemoryError:
            raise
        except (AbsentError, ConfigError) as error:
            reasons.setdefault(str(error), []).append(score.name)
        except Exception as error:
            reasons.setdefault(quoted(with_type(error)), []).append(score.name)
    return values, [f"no {', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _scorer(name: str) -> Any:
    from sklearn.metrics import get_scorer, get_scorer_names

    names = get_scorer_names()
    if name not in names:
        raise _unknown(name, nearest(name, [*names, *NAMED_SCORES, *SCORE_COLUMNS]))
    return get_scorer(name)


def _function_value(name: str, test: Predictions) -> float:
    return float(load_function("metrics", name)(test.y, test.labels))


def _scorer_value(name: str, test: Predictions) -> float:
    """The value of a scorer for the predictions `test`, which are in the unit of the target."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    def predict(self: Any, X: Any) -> Array:
        return test.labels

    def predict_proba(self: Any, X: Any) -> Array:
        return test.probabilities

    def decision_function(self: Any, X: Any) -> Array:
        return test.decisions

    methods: dict[str, Any] = {"predict": predict, "__sklearn_is_fitted__": lambda self: True}
    mixin: type = RegressorMixin
    if test.task != "regression":
        mixin = ClassifierMixin
        methods["classes_"] = test.classes
        for method in (predict_proba, decision_function):
            if hasattr(test.estimator, method.__name__):
                methods[method.__name__] = method
    predictions = type(type(test.estimator).__name__, (mixin, BaseEstimator), methods)()
    return float(_scorer(name)(predictions, test.X, test.y))
