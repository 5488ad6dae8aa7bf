"""From the labels of the files to the targets of a task."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kbench.errors import ConfigError, DataError


def wanted_rows(y: np.ndarray, rule: Mapping[str, Any]) -> np.ndarray | None:
    """Rows that the target rule keeps, or None for all of them.

    With `negative` labels given, rows that are neither positive nor negative are left out; the
    rule has numbers (see `numbered`).
    """
    negative = rule.get("negative")
    if not negative:
        return None
    return np.flatnonzero(np.isin(y, [*(rule.get("positive") or []), *negative]))


def numbered(task: str, rule: Mapping[str, Any], labels: tuple[str, ...] | None) -> dict[str, Any]:
    """The rule with the places of its labels in `labels`, where the files have texts.

    Raises
    ------
    ConfigError
        The rule names a label that the files do not have, or none where it must.
    """
    told = {name: rule[name] for name in ("positive", "negative") if rule.get(name)}
    texts = [v for values in told.values() for v in values if isinstance(v, str)]
    if labels is None:
        if texts:
            raise ConfigError(f"dataset.target names {texts[0]!r}, but the labels are numbers")
        return dict(rule)
    shown = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
    for name, values in told.items():
        strange = [v for v in values if v not in labels]
        if strange:
            raise ConfigError(
                f"dataset.target.{name} has {strange[0]!r}, but the labels are {shown}"
            )
    if task == "binary" and "positive" not in told and len(labels) != 2:
        raise ConfigError(
            f"dataset.task is binary, but the labels are {shown}: name the positive ones by "
            "dataset.target.positive=[...]"
        )
    return dict(rule) | {name: [labels.index(v) for v in told[name]] for name in told}


def encode(
    task: str, y_train: np.ndarray, y_test: np.ndarray, rule: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, int | None]:
    """Targets of both parts, and the number of classes (None for regression).

    Parameters
    ----------
    task : {"binary", "multiclass", "regression"}
    y_train, y_test : ndarray of float64, shape (n,)
        Labels as the files have them.
    rule : mapping
        `target` of the config: positive, negative, scale; with numbers (see `numbered`).

    Returns
    -------
    y_train, y_test : ndarray
        binary: int32, -1 and +1; multiclass: int32, the files' labels; regression: float64.

    Raises
    ------
    ConfigError
        The rule does not fit the labels.
    DataError
        A class label that is no whole number.
    """
    if task == "regression":
        if rule.get("positive"):
            labels = np.unique(np.concatenate([y_train, y_test]))
            positive = _positive(labels, rule)
            y_train, y_test = (np.isin(y, positive).astype(float) for y in (y_train, y_test))
        return *_scaled(y_train, y_test, rule.get("scale") or "none"), None
    labels = np.unique(np.concatenate([np.unique(y_train), np.unique(y_test)]))
    if task == "multiclass":
        odd = labels[(labels != np.round(labels)) | (np.abs(labels) > 2**31 - 1)]
        if odd.size:
            raise DataError(
                f"label {odd[0]:g}: a class label should be a whole number; for real targets set "
                "dataset.task=regression"
            )
        return y_train.astype(np.int32), y_test.astype(np.int32), int(labels.size)
    positive = _positive(labels, rule)
    signs = [np.where(np.isin(y, positive), 1, -1).astype(np.int32) for y in (y_train, y_test)]
    return signs[0], signs[1], 2


def _positive(labels: np.ndarray, rule: Mapping[str, Any]) -> list[float]:
    shown = ", ".join(f"{v:g}" for v in labels[:12]) + (", ..." if labels.size > 12 else "")
    asked = rule.get("positive")
    if not asked:
        if labels.size != 2:
            raise ConfigError(
                f"dataset.task is binary, but the labels are {shown}: name the positive ones by "
                "dataset.target.positive=[...]"
            )
        return [float(labels[1])]
    for name in ("positive", "negative"):
        strange = [v for v in rule.get(name) or [] if v not in labels]
        if strange:
            raise ConfigError(
                f"dataset.target.{name} has {strange[0]:g}, but the labels are {shown}"
            )
    if set(asked) & set(rule.get("negative") or []):
        raise ConfigError("dataset.target: a label is both positive and negative")
    if not set(labels) - set(asked):
        raise ConfigError(f"dataset.target.positive has every label ({shown}), none is negative")
    return [float(v) for v in asked]


def _scaled(y_train: np.ndarray, y_test: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    shift, unit = 0.0, 1.0
    if kind == "max":
        unit = float(np.abs(y_train).max())
    elif kind == "unit":
        shift = float(y_train.min())
        unit = float(y_train.max()) - shift
    elif kind == "standard":
        shift, unit = float(y_train.mean()), float(y_train.std())
    unit = unit or 1.0  # a constant target stays finite
    return (y_train - shift) / unit, (y_test - shift) / unit
