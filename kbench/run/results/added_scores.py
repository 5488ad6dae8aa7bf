"""Scores that `metrics=[NAME, ...]` adds to the rows of a command, beside those of `metrics.py`,
and those of quantiles, which the rows of every estimator of a quantile have.

A name is one of `NAMED`, `top_K_accuracy` or `pinball_loss_Q`, a scorer of scikit-learn (also those
whose values are negated), or `package.module:function` of (y_true, y_pred), which is imported in
the worker. scikit-learn computes everything that it has. Targets and predictions of regressors are
in the unit of the target, the classes of a binary problem are -1 and +1, and others 0, 1, ...
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

from kbench.errors import ConfigError, with_type
from kbench.mistyped import nearest
from kbench.run.results import metrics
from kbench.run.results.metrics import METRICS, Array
from kbench.run.results.user_functions import load_function

# Characters of an exception in the message of a row. Set by hand.
_MESSAGE_CHARS = 200


class AbsentError(Exception):
    """The text of the exception gives the reason why a run has no such score."""


@dataclass(frozen=True)
class Predicted:
    """What a fitted estimator says of the test rows; y and labels in the unit of the target."""

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
        """(n, n_classes) float64; an AbsentError without them."""
        if not hasattr(self.estimator, "predict_proba"):
            raise AbsentError(
                f"{type(self.estimator).__name__} has no probabilities; "
                "method.calibration=sigmoid adds them"
            )
        return np.asarray(self.estimator.predict_proba(self.X), np.float64)

    @functools.cached_property
    def decisions(self) -> Array:
        """(n,) of two classes, (n, n_classes) of more; an AbsentError without them."""
        scores = metrics.class_scores(self.estimator, self.X)
        if scores is None:
            raise AbsentError(f"{type(self.estimator).__name__} has no scores of classes")
        return scores

    @property
    def quantile(self) -> float:
        """The quantile that the estimator says it predicts; an AbsentError without one."""
        quantile = _declared_quantile(self.estimator)
        if isinstance(quantile, bool) or not isinstance(quantile, Real):
            raise AbsentError(
                f"{type(self.estimator).__name__} predicts no single quantile; pinball_loss_0.9 "
                "scores any method as one of the 0.9-quantile"
            )
        return float(quantile)


def _declared_quantile(estimator: Any) -> Any:
    """The quantile that an estimator's parameters name, or one of its steps' or inner estimators'.

    By scikit-learn's conventions: it is the parameter `quantile`, or else `alpha`, and where there
    is a parameter `loss`, `strategy` or `objective` beside it, that has to be "quantile".
    """
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name in params:
        before = name.removesuffix(name.rpartition("__")[2])
        kinds = [params.get(before + kind) for kind in ("loss", "strategy", "objective")]
        chosen = "quantile" in kinds
        wanted = ("quantile", "alpha") if chosen else ("quantile",)
        if chosen or not any(isinstance(kind, str) for kind in kinds):
            for parameter in wanted:
                if params.get(before + parameter) is not None:
                    return params[before + parameter]
    return None


def _log_loss(p: Predicted) -> float:
    from sklearn.metrics import log_loss

    return float(log_loss(p.y, p.probabilities, labels=p.classes))


def _brier_score(p: Predicted) -> float:
    from sklearn.metrics import brier_score_loss

    if len(p.classes) == 2:
        return float(brier_score_loss(p.y, p.probabilities[:, 1], pos_label=p.classes[1]))
    # scikit-learn has it of several classes from version 1.7 on.
    return float(np.mean(np.sum((p.probabilities - (p.y[:, None] == p.classes)) ** 2, axis=1)))


def _calibration_error(p: Predicted) -> float:
    curves = metrics.reliability(p.y, p.probabilities, p.classes)
    if not curves:
        raise AbsentError("the probabilities are not finite")
    right, fraction = (np.asarray(curve["value"]) for curve in curves)
    return float(np.sum(fraction * np.abs(right - curves[0]["x"])))


def _mape(p: Predicted) -> float:
    from sklearn.metrics import mean_absolute_percentage_error

    return float(mean_absolute_percentage_error(p.y, p.labels))


def _pinball_loss(p: Predicted, quantile: float | None = None) -> float:
    from sklearn.metrics import mean_pinball_loss

    quantile = p.quantile if quantile is None else quantile
    return float(mean_pinball_loss(p.y, p.labels, alpha=quantile))


def _coverage(p: Predicted) -> float:
    """Fraction of the targets that are at most the prediction."""
    return float(np.mean(p.y <= p.labels))


def _coverage_error(p: Predicted) -> float:
    return abs(_coverage(p) - p.quantile)


def _top_accuracy(p: Predicted, k: int) -> float:
    from sklearn.metrics import top_k_accuracy_score

    if not 1 <= k < len(p.classes):
        raise AbsentError(f"there are {len(p.classes)} classes")
    return float(top_k_accuracy_score(p.y, p.decisions, k=k, labels=p.classes))


@dataclass(frozen=True)
class AddedScore:
    """A score by its name in `metrics=[...]`, or that of a column."""

    name: str
    direction: Literal["max", "min", ""]  # "" where no value is better than another
    of_classes: bool | None  # for classifiers alone, or for regressors alone; None is for both
    function: Callable[[Predicted], float]


NAMED = {
    score.name: score
    for score in (
        AddedScore("log_loss", "min", True, _log_loss),
        AddedScore("brier_score", "min", True, _brier_score),
        AddedScore("calibration_error", "min", True, _calibration_error),
        AddedScore("mape", "min", False, _mape),
        AddedScore("coverage_error", "min", False, _coverage_error),
    )
}

# Columns of the rows whose estimator predicts a quantile, at that quantile.
QUANTILE = (
    AddedScore("pinball", "min", False, _pinball_loss),
    AddedScore("coverage", "", False, _coverage),
)

# Scores that every row of their task has, or of their kind of estimator.
COLUMNS = frozenset(
    [
        *(spec.name for task in METRICS.values() for spec in task),
        *(score.name for score in QUANTILE),
    ]
)


def added_score(name: str) -> AddedScore:
    """The score of a name; nothing is imported until its function is called.

    Larger values of scikit-learn's scorers are better, and so are those of a user's own function,
    unless its name ends as scikit-learn's names of losses do: _loss, _error or _deviance.

    Raises ConfigError: the name has none of the forms.
    """
    if name in NAMED:
        return NAMED[name]
    if match := re.fullmatch(r"top_(\d+)_accuracy", name):
        return AddedScore(name, "max", True, functools.partial(_top_accuracy, k=int(match[1])))
    if match := re.fullmatch(r"pinball_loss_(0?\.\d+)", name):
        function = functools.partial(_pinball_loss, quantile=float(match[1]))
        return AddedScore(name, "min", False, function)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name):
        loss = name.endswith(("_loss", "_error", "_deviance"))
        function = functools.partial(_of_function, name)
        return AddedScore(name, "min" if loss else "max", None, function)
    if re.fullmatch(r"[a-z]\w*", name):
        return AddedScore(name, "max", None, functools.partial(_of_scorer, name))
    raise _unknown(name)


def _unknown(name: str, hint: str = "") -> ConfigError:
    return ConfigError(
        f"metrics names {name!r}{hint}, should be {', '.join(NAMED)}, top_3_accuracy, "
        "pinball_loss_0.9, a scorer of scikit-learn, or package.module:function"
    )


def new_scores(names: Iterable[str]) -> list[AddedScore]:
    """The scores of `metrics`, without those that rows have anyway."""
    return [added_score(name) for name in dict.fromkeys(names) if name not in COLUMNS]


def check(names: Iterable[str]) -> str | None:
    """What is wrong with the first wrong name of `metrics`; imports what they name."""
    for score in new_scores(names):
        try:
            if ":" in score.name:
                load_function("metrics", score.name)
            elif score.of_classes is None:
                _scorer(score.name)
        except ConfigError as error:
            return str(error)
    return None


def of_quantile(p: Predicted) -> dict[str, float]:
    """The columns `QUANTILE`; none of an estimator that predicts no quantile."""
    with contextlib.suppress(AbsentError):
        if p.task == "regression" and p.quantile is not None:
            return {score.name: score.function(p) for score in QUANTILE}
    return {}


def _wrong_task(task: str) -> str:
    kind = {"regression": "regressors", "outlier": "outlier detectors"}
    return f"it is not a score of {kind.get(task, 'classifiers')}"


def measured(names: Iterable[str], p: Predicted) -> tuple[dict[str, float | None], list[str]]:
    """The added scores of a run by their names, None where one cannot be had, with the reasons."""
    values: dict[str, float | None] = {}
    reasons: dict[str, list[str]] = {}
    own = {spec.name for spec in (*METRICS[p.task], *(QUANTILE if p.task == "regression" else ()))}
    if others := [name for name in dict.fromkeys(names) if name in COLUMNS - own]:
        reasons[_wrong_task(p.task)] = others
    for score in new_scores(names):
        values[score.name] = None
        classifies = p.task in ("binary", "multiclass")
        known = p.task != "outlier" and score.of_classes == classifies
        try:
            if score.of_classes is not None and not known:
                raise AbsentError(_wrong_task(p.task))
            value = score.function(p)
            if not math.isfinite(value):
                raise AbsentError(f"it is {value}")
            values[score.name] = value
        except MemoryError:
            raise
        except (AbsentError, ConfigError) as error:
            reasons.setdefault(str(error), []).append(score.name)
        except Exception as error:
            reasons.setdefault(with_type(error, _MESSAGE_CHARS), []).append(score.name)
    return values, [f"no {', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _scorer(name: str) -> Any:
    from sklearn.metrics import get_scorer, get_scorer_names

    known = get_scorer_names()
    if name not in known:
        raise _unknown(name, nearest(name, [*known, *NAMED, *COLUMNS]))
    return get_scorer(name)


def _of_function(name: str, p: Predicted) -> float:
    return float(load_function("metrics", name)(p.y, p.labels))


def _of_scorer(name: str, p: Predicted) -> float:
    """The value of a scorer, which gets the predictions that were made already.

    They are in the unit of the target, which those of the estimator need not be.
    """
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    def predict(self: Any, X: Any) -> Array:
        return p.labels

    def predict_proba(self: Any, X: Any) -> Array:
        return p.probabilities

    def decision_function(self: Any, X: Any) -> Array:
        return p.decisions

    methods: dict[str, Any] = {"predict": predict, "__sklearn_is_fitted__": lambda self: True}
    kind: type = RegressorMixin
    if p.task != "regression":
        kind = ClassifierMixin
        methods["classes_"] = p.classes
        for method in (predict_proba, decision_function):
            if hasattr(p.estimator, method.__name__):
                methods[method.__name__] = method
    predictions = type(type(p.estimator).__name__, (kind, BaseEstimator), methods)()
    return float(_scorer(name)(predictions, p.X, p.y))
