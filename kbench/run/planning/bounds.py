"""Parameters that the data bound, such as the number of neighbours by the number of training rows.

Estimators compare them with the rows when they are fitted or predict, so that a plan does it
before. Parameters that are clipped with a warning, as kbench's ranks are, are not among them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from kbench.data import open_prepared
from kbench.data.configs.dataset import rows_of_split

BOUNDED = (
    *("alpha", "calibration", "categorical_features", "class_weight", "gamma", "max_features"),
    *("monotonic_cst", "n_neighbors", "nu", "pca_components"),
)


@dataclass(frozen=True)
class Sizes:
    """The training rows of a data set in numbers; None where they are not known."""

    n: int  # or more, by the facts of a data set that is not prepared
    d: int | None
    classes: Mapping[Any, int] | None = None  # the rows of each class as the method sees them
    targets: int | None = None  # columns of numbers that are learned: one of each of many classes

    @classmethod
    def of(cls, config: Mapping[str, Any], prepared: str | Path | None) -> "Sizes | None":
        """Of the prepared arrays of a checked config, or of its facts; None if neither says it."""
        import numpy as np

        if prepared is not None:
            data = open_prepared(prepared, config.get("holdout"))
            if data.n_classes is None:
                return cls(data.n_train, data.n_features, targets=1)
            labels, counts = np.unique(data.y_train, return_counts=True)
            classes = dict(zip(labels.tolist(), counts.tolist(), strict=True))
            targets = 1 if len(classes) == 2 else len(classes)
            return cls(data.n_train, data.n_features, classes, targets)
        facts, split = config.get("facts") or {}, config.get("split") or {}
        left_out = (config.get("target") or {}).get("negative") or config.get("missing") == "drop"
        if left_out or config.get("holdout") or not (facts.get("n") or facts.get("n_train")):
            return None
        n = facts.get("n_train") or facts["n"]
        if split.get("kind", "given") != "given":
            whole = facts.get("n") or facts["n_train"] + (facts.get("n_test") or 0)
            n = rows_of_split(whole, split)[0]
            if split.get("folds"):
                n = whole - whole // split["folds"]
            elif split.get("stratified"):  # each class is rounded
                n = min(whole, n + 1 + (facts.get("n_classes") or whole) // 2)
        return cls(min(n, config.get("first_train") or n), facts.get("n_features"))


def may_refuse(params: Mapping[str, Any]) -> bool:
    """Whether a run has a parameter that may be refused, so that its estimator should be asked."""
    return any(
        params.get(name) is not None and (name not in ("alpha", "gamma") or _several(params[name]))
        for name in BOUNDED
    )


def refused(estimator: Any, sizes: Sizes) -> str | None:
    """What the fit or the predictions of an unfitted estimator would say of a parameter.

    Returns one line with the parameter, its value and its bound; None if nothing is refused.
    """
    return next(_refusals(estimator, sizes), None)


def _refusals(estimator: Any, sizes: Sizes) -> Iterator[str]:
    from sklearn.base import is_outlier_detector

    n, d, classes = sizes.n, sizes.d, sizes.classes or {}
    rows = f"the number of training rows, {n}"
    calibrated = _is_a(estimator, "sklearn.calibration.CalibratedClassifierCV")
    inner = estimator.estimator if calibrated else estimator
    if _is_a(inner, "kbench.metric.with_metric.WithMetric"):
        inner = inner.estimator
    params = inner.get_params(deep=False)
    ours = type(inner).__module__.startswith("kbench.")
    if calibrated:
        few = [label for label, count in classes.items() if count < estimator.cv]
        if few:
            yield (
                f"method.calibration takes {estimator.cv} folds, the class {few[0]} has "
                f"{classes[few[0]]} of the training rows, should have {estimator.cv} at least"
            )
        n -= -(-n // estimator.cv)
        rows = f"the number of training rows without a fold of the calibration, {n}"
    neighbours = _is_a(inner, "sklearn.neighbors._base.KNeighborsMixin")
    features = f"the number of features, {d}"
    bounds = [
        ("n_neighbors", neighbours and not is_outlier_detector(inner), n, rows),
        ("max_features", _is_a(inner, "sklearn.ensemble._bagging.BaseBagging"), d, features),
        ("pca_components", ours, d, features),
    ]
    for name, applies, largest, shown in bounds:
        value = params.get(name)
        if applies and isinstance(value, int) and largest is not None and value > largest:
            yield f"method.{name} is {value}, should be at most {shown}"
    lengths = [
        ("monotonic_cst", True, d, "one a feature"),
        ("gamma", ours, d, "one a feature"),
        ("alpha", True, sizes.targets, "one a target"),
    ]
    for name, applies, length, of in lengths:
        values = params.get(name)
        if applies and length and _several(values) and len(values) != length:
            yield (
                f"method.{name} has {len(values)} values, should have {length}, {of}. For one run "
                f"for each value write -m method.{name}={','.join(map(str, values))}"
            )
    places = params.get("categorical_features")
    numbers = [place for place in places if isinstance(place, int)] if _several(places, 1) else []
    if d is not None and numbers and max(numbers) >= d:
        yield (
            f"method.categorical_features has {max(numbers)}, should have places of the {d} "
            "features, from 0"
        )
    weights = params.get("class_weight")
    if isinstance(weights, Mapping) and classes:
        unknown = [label for label in weights if label not in classes]
        tolerated = not ours and set(classes) <= set(weights)
        if unknown and not tolerated:
            yield (
                f"method.class_weight has {unknown[0]!r}, should have classes of the training rows "
                f"as the method sees them: {', '.join(map(str, classes))}"
            )
    # Class weights count in ours alone.
    if type(inner).__name__ in ("NuSVC", "KernelNuSVC") and not (ours and weights is not None):
        for a, b in combinations(classes, 2):
            largest_nu = 2 * min(classes[a], classes[b]) / (classes[a] + classes[b])
            if params["nu"] > largest_nu * (1 + 1e-9):  # rounding
                yield (
                    f"method.nu is {params['nu']}, should be at most {largest_nu:.6g} for the "
                    f"{classes[a]} and {classes[b]} training rows of the classes {a} and {b}"
                    + "; method.class_weight=balanced makes every nu feasible"
                    * ours
                )


def _several(value: Any, least: int = 2) -> bool:
    return isinstance(value, list) and len(value) >= least


def _is_a(estimator: Any, dotted: str) -> bool:
    """isinstance without the import of a module that no estimator of the plan needs."""
    return any(f"{c.__module__}.{c.__qualname__}" == dotted for c in type(estimator).__mro__)
