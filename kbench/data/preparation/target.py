"""The map from labels in files to targets of a task."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kbench.data.configs.own_file import MAX_CLASSES
from kbench.data.formats import listed
from kbench.data.formats.number_text import first_confusable_pair
from kbench.data.formats.table import matching
from kbench.errors import ConfigError, DataError, counted


def wanted_rows(y: np.ndarray, rule: Mapping[str, Any]) -> np.ndarray | None:
    """Indices of the rows that the target rule keeps, or None for all rows.

    If the rule has `negative` labels, rows with labels that are neither positive nor negative are
    left out. The rule has to hold numbers, see `numbered`.
    """
    negative = rule.get("negative")
    if not negative:
        return None
    return np.flatnonzero(np.isin(y, [*(rule.get("positive") or []), *negative]))


def numbered(task: str, rule: Mapping[str, Any], labels: tuple[str, ...] | None) -> dict[str, Any]:
    """The rule, in which text labels are replaced by their indices in `labels`.

    Raises ConfigError: the rule names a label that the files lack, or lacks a label that the task
    needs.
    """
    lists = {name: rule[name] for name in ("positive", "negative", "outlier") if rule.get(name)}
    if labels is None:
        texts = [v for values in lists.values() for v in values if isinstance(v, str)]
        if texts:
            raise ConfigError(f"dataset.target names {texts[0]!r}, but the labels are numbers")
        return dict(rule)
    # A label such as True or 1 arrives as a truth value or number, although the file has texts.
    lists = {name: [matching(labels, v) or v for v in values] for name, values in lists.items()}
    _require_known(lists, labels, listed(labels))
    if task == "binary":
        _require_positive(rule, labels, listed(labels))
    return dict(rule) | {name: [labels.index(v) for v in lists[name]] for name in lists}


# Tasks whose targets are -1 and +1.
_TWO_CLASS_TASKS = ("binary", "outlier")


@dataclass(frozen=True)
class TargetMap:
    """Maps the labels of the files to the targets of a task, and back."""

    task: str  # {"binary", "multiclass", "regression", "outlier"}
    # Labels in the files, sorted; empty if any number may be a target.
    labels: tuple[float, ...] = ()
    # Labels of class +1, which for outlier is the class of normal rows. For regression on labels:
    # labels that become 1; the others become 0.
    positive: tuple[float, ...] = ()
    # A regression's target is (label - shift) / unit.
    shift: float = 0.0
    unit: float = 1.0
    texts: tuple[str, ...] | None = None  # Label k is texts[k]; None if the labels are numbers
    # Whether a regression is scored in the unit of the files, not in the unit of the targets.
    own_unit: bool = False

    def encode(self, labels: np.ndarray) -> np.ndarray:
        """Targets of labels : (n,). binary: int32, -1 and +1; outlier: int32, -1 and +1 for normal
        rows; multiclass: int32, the files' labels; regression: float64."""
        if self.task == "multiclass":
            return labels.astype(np.int32)
        if self.task in _TWO_CLASS_TASKS:
            return np.where(np.isin(labels, self.positive), 1, -1).astype(np.int32)
        if self.positive:
            labels = np.isin(labels, self.positive).astype(float)
        return (labels - self.shift) / self.unit

    def decode(self, targets: np.ndarray) -> np.ndarray:
        """The files' values (for regression) or labels (for classes) of targets : (n,).

        -1 and +1 stay if a class has several labels.
        """
        if self.task == "regression":
            return targets * self.unit + self.shift
        labels = targets.astype(np.intp)
        if self.task in _TWO_CLASS_TASKS:
            negative = [label for label in self.labels if label not in self.positive]
            if len(self.positive) != 1 or len(negative) != 1:
                return labels
            pair = np.array([negative[0], self.positive[0]])
            labels = (pair.astype(np.intp) if np.all(pair == np.round(pair)) else pair)[
                (targets > 0).astype(np.intp)
            ]
        return labels if self.texts is None else np.array(self.texts)[labels]

    def unseen_classes(self, y_train: np.ndarray, y_test: np.ndarray) -> str | None:
        """A note about classes that only test rows have; y : (n,) targets from `encode`.

        None without such a class, or if all training rows have one class, which `fit` refuses.
        """
        train_classes = np.unique(y_train)
        is_new = ~np.isin(y_test, train_classes)
        n = int(np.count_nonzero(is_new))
        if not n or train_classes.size < 2:
            return None
        names = listed(map(str, self.decode(np.unique(y_test[is_new]))))
        return (
            f"{counted(n, 'test row')} of classes that no training row has count as errors: {names}"
        )

    def unknown_labels(self, labels: np.ndarray, texts: Sequence[str] = ()) -> str | None:
        """A note about labels of later rows that are not classes of the model, or None.

        labels : (n,), as in the files. texts : The model's texts, then further texts of the rows.
        """
        unknown = [*map(repr, texts[len(self.texts or ()) :])]
        if self.labels:
            present = np.unique(labels[~np.isnan(labels)])
            unknown += [f"{label:.15g}" for label in present[~np.isin(present, self.labels)]]
        if not unknown:
            return None
        names = map(repr, self.texts) if self.texts else (f"{v:.15g}" for v in self.labels)
        expected = f"a class of the model, which are {listed(names)}" if self.labels else "a number"
        return f"rows whose target is {listed(unknown)} are not scored: it is not {expected}"

    def scored(self, targets: np.ndarray) -> np.ndarray:
        """Targets or predictions : (n,) in the unit in which the run is scored."""
        return self.decode(targets) if self.own_unit else targets

    def known(self, labels: np.ndarray) -> np.ndarray:
        """(n,) bool: which labels : (n,) are finite and, if there are classes, known."""
        finite = np.isfinite(labels)
        return finite & np.isin(labels, self.labels) if self.labels else finite


def learn(
    task: str,
    y_train: np.ndarray,
    y_test: np.ndarray,
    rule: Mapping[str, Any],
    texts: tuple[str, ...] | None = None,
) -> tuple[TargetMap, int | None]:
    """Make the map from labels to targets, and count the classes (None for regression).

    Parameters
    ----------
    task : {"binary", "multiclass", "regression", "outlier"}
    y_train, y_test : ndarray of float64, shape (n,). Labels as in the files.
    rule : `target` of the config: positive, negative, outlier, scale; labels are numbers, see
        `numbered`.
    texts : tuple of str, optional. The text of each numbered label.

    Raises
    ------
    ConfigError
        The rule does not fit the labels.
    DataError
        All rows have one label; or a label is 2^53 or more in magnitude; or, if there are several
        classes, one is not a whole number or does not fit into int32.

    Warns
    -----
    UserWarning
        There are more than MAX_CLASSES labels, all numbers: probably targets of a regression.
    """
    if task == "regression" and not rule.get("positive"):
        kind = rule.get("scale") or "none"
        shift, unit = _scale(y_train, kind)
        return TargetMap(task, shift=shift, unit=unit, own_unit=kind == "fit"), None
    labels = np.unique(np.concatenate([np.unique(y_train), np.unique(y_test)]))
    _require_distinct(labels)
    if labels.size == 1:
        label = f"{labels[0]:g}" if texts is None else repr(texts[int(labels[0])])
        raise DataError(
            f"dataset.task is {task}, but the target is {label} in all "
            f"{y_train.size + y_test.size} rows, should have two values at least"
        )
    if task == "multiclass":
        if texts is None and labels.size > MAX_CLASSES:
            warnings.warn(
                f"dataset.task is multiclass, and the target has {labels.size} different numbers "
                f"from {labels[0]:g} to {labels[-1]:g}: if they are quantities, set "
                "dataset.task=regression",
                stacklevel=2,
            )
        wrong = labels[(labels != np.round(labels)) | (np.abs(labels) > 2**31 - 1)]
        if wrong.size:
            raise DataError(
                f"label {wrong[0]:g}: a class label should be a whole number; for real targets set "
                "dataset.task=regression"
            )
        return TargetMap(task, tuple(labels.tolist()), texts=texts), int(labels.size)
    positive = _normal(labels, rule["outlier"]) if task == "outlier" else _positive(labels, rule)
    target_map = TargetMap(task, tuple(labels.tolist()), tuple(positive), texts=texts)
    if task in _TWO_CLASS_TASKS:
        return target_map, 2
    kind = rule.get("scale") or "none"
    shift, unit = _scale(target_map.encode(y_train), kind)
    return replace(target_map, shift=shift, unit=unit, own_unit=kind == "fit"), None


def _require_distinct(labels: np.ndarray) -> None:
    """Refuse class labels from 2^53 on, because float64 merges such whole numbers."""
    if np.abs(labels).max(initial=0.0) >= 2.0**53:
        worst = labels[np.argmax(np.abs(labels))]
        raise DataError(
            f"label {worst:.17g}: whole numbers from 2^53 on are not distinct in float64, "
            "class labels should be smaller; dataset.task=regression takes them as numbers"
        )


def _normal(labels: np.ndarray, outlier: list[Any]) -> list[float]:
    """The labels that are not labels of outliers."""
    names = listed(f"{label:g}" for label in labels)
    _require_known({"outlier": outlier}, labels, names)
    normal = labels[~np.isin(labels, outlier)]
    if not normal.size:
        raise ConfigError(f"dataset.target.outlier has every label ({names}), none is normal")
    return [float(v) for v in normal]


def _positive(labels: np.ndarray, rule: Mapping[str, Any]) -> list[float]:
    """The labels that the rule calls positive; the larger of two labels if it calls none so."""
    names = listed(f"{label:g}" for label in labels)
    _require_positive(rule, labels, names)
    positive = rule.get("positive")
    if not positive:
        return [float(labels[1])]
    _require_known(rule, labels, names)
    if set(positive) & set(rule.get("negative") or []):
        raise ConfigError("dataset.target: a label is both positive and negative")
    if not set(labels) - set(positive):
        raise ConfigError(f"dataset.target.positive has every label ({names}), none is negative")
    return [float(v) for v in positive]


def _require_known(rule: Mapping[str, Any], labels: Any, names: str) -> None:
    """Refuse a rule with a label that the files lack."""
    for name in ("positive", "negative", "outlier"):
        for label in rule.get(name) or []:
            if label not in labels:
                text = repr(label) if isinstance(label, str) else f"{label:g}"
                raise ConfigError(f"dataset.target.{name} has {text}, but the labels are {names}")


def _require_positive(rule: Mapping[str, Any], labels: Any, names: str) -> None:
    """Refuse a rule without positive labels unless there are two labels."""
    if not rule.get("positive") and len(labels) != 2:
        are_texts = all(isinstance(label, str) for label in labels)
        pair = first_confusable_pair(labels) if are_texts else []
        spelling = f" ({pair[0]!r} and {pair[1]!r} differ in spelling alone)" if pair else ""
        raise ConfigError(
            f"dataset.task is binary, but the labels are {names}{spelling}: name the positive ones "
            "by dataset.target.positive=[...], or set dataset.task=multiclass"
        )


def _scale(y_train: np.ndarray, kind: str) -> tuple[float, float]:
    """Shift and unit of a regression's targets."""
    shift, unit = 0.0, 1.0
    if kind == "max":
        unit = float(np.abs(y_train).max())
    elif kind == "unit":
        shift = float(y_train.min())
        unit = float(y_train.max()) - shift
    elif kind in ("standard", "fit"):
        shift, unit = float(y_train.mean()), float(y_train.std())
    return shift, unit or 1.0  # a constant target stays finite
