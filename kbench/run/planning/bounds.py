"""Check parameters that the data bound, such as n_neighbors by the number of training rows.

Estimators check them only in `fit` or `predict`, so the plan checks them before the runs.
Parameters that are clipped with a warning, such as kbench's ranks, are not checked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from kbench.data import open_prepared
from kbench.data.configs.dataset import rows_of_split

# Parameters that `refusal` checks; `alpha` and `gamma` only if they are lists.
BOUNDED = (
    *("alpha", "calibration", "categorical_features", "class_weight", "gamma", "max_features"),
    *("monotonic_cst", "n_neighbors", "nu", "pca_components"),
)


@dataclass(frozen=True)
class Sizes:
    """Sizes of the training rows of a data set; None for an unknown size."""

    n: int  # number of rows; an upper bound if it follows from the facts of a config
    d: int | None  # number of features
    classes: Mapping[Any, int] | None = None  # label of a class -> number of rows
    targets: int | None = None  # columns of targets: 1, or the number of more than two classes

    @classmethod
    def of(cls, config: Mapping[str, Any], prepared: str | Path | None) -> "Sizes | None":
        """Sizes of prepared arrays or by the facts of a checked config; None without either."""
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
        drops_rows = (config.get("target") or {}).get("negative") or config.get("missing") == "drop"
        if drops_rows or config.get("holdout") or not (facts.get("n") or facts.get("n_train")):
            return None
        n = facts.get("n_train") or facts["n"]
        if split.get("kind", "given") != "given":
            n_all = facts.get("n") or facts["n_train"] + (facts.get("n_test") or 0)
            n = rows_of_split(n_all, split)[0]
            if split.get("folds"):
                n = n_all - n_all // split["folds"]
            elif split.get("stratified"):  # the rows of each class are rounded
                n = min(n_all, n + 1 + (facts.get("n_classes") or n_all) // 2)
        return cls(min(n, config.get("first_train") or n), facts.get("n_features"))


def may_refuse(params: Mapping[str, Any]) -> bool:
    """Whether a run has a parameter that `refusal` checks."""
    return any(
        params.get(name) is not None and (name not in ("alpha", "gamma") or _is_list(params[name]))
        for name in BOUNDED
    )


def refusal(estimator: Any, sizes: Sizes) -> str | None:
    """The first parameter that the fit or the predictions of an unfitted estimator would refuse.

    Returns a line with the parameter, its value and its bound; None if there is none.
    """
    return next(_refusals(estimator, sizes), None)


def _refusals(estimator: Any, sizes: Sizes) -> Iterator[str]:
    """A line for each parameter that the fit or the predictions would refuse."""
    from sklearn.base import is_outlier_detector

    n, d, classes = sizes.n, sizes.d, sizes.classes or {}
    rows = f"the number of training rows, {n}"
    is_calibrated = _is_a(estimator, "sklearn.calibration.CalibratedClassifierCV")
    base = estimator.estimator if is_calibrated else estimator
    if _is_a(base, "kbench.metric.with_metric.WithMetric"):
        base = base.estimator
    params = base.get_params(deep=False)
    is_of_kbench = type(base).__module__.startswith("kbench.")
    if is_calibrated:
        rare = [label for label, count in classes.items() if count < estimator.cv]
        if rare:
            yield (
                f"method.calibration takes {estimator.cv} folds, the class {rare[0]} has "
                f"{classes[rare[0]]} of the training rows, should have {estimator.cv} at least"
            )
        n -= -(-n // estimator.cv)
        rows = f"the number of training rows without a fold of the calibration, {n}"
    finds_neighbours = _is_a(base, "sklearn.neighbors._base.KNeighborsMixin")
    features = f"the number of features, {d}"
    bounds = [
        ("n_neighbors", finds_neighbours and not is_outlier_detector(base), n, rows),
        ("max_features", _is_a(base, "sklearn.ensemble._bagging.BaseBagging"), d, features),
        ("pca_components", is_of_kbench, d, features),
    ]
    for name, applies, largest, bound in bounds:
        value = params.get(name)
        if applies and isinstance(value, int) and largest is not None and value > largest:
            yield f"method.{name} is {value}, should be at most {bound}"
    lengths = [
        ("monotonic_cst", True, d, "one per feature"),
        ("gamma", is_of_kbench, d, "one per feature"),
        ("alpha", True, sizes.targets, "one per target"),
    ]
    for name, applies, length, unit in lengths:
        values = params.get(name)
        if applies and length and _is_list(values) and len(values) != length:
            yield (
                f"method.{name} has {len(values)} values, should have {length}, {unit}. For one "
                f"run for each value write -m method.{name}={','.join(map(str, values))}"
            )
    columns = params.get("categorical_features")
    numbers = [index for index in columns if isinstance(index, int)] if _is_list(columns, 1) else []
    if d is not None and numbers and max(numbers) >= d:
        yield (
            f"method.categorical_features has {max(numbers)}, should have indices of "
            f"features, 0 to {d - 1}"
        )
    weights = params.get("class_weight")
    if isinstance(weights, Mapping) and classes:
        unknown = [label for label in weights if label not in classes]
        allowed = not is_of_kbench and set(classes) <= set(weights)
        if unknown and not allowed:
            yield (
                f"method.class_weight has {unknown[0]!r}, should have classes of the training rows "
                f"as the method sees them: {', '.join(map(str, classes))}"
            )
    # Class weights do not change the bound of scikit-learn's nu-SVC. They change the bound of
    # kbench's, which its fit checks.
    if type(base).__name__ in ("NuSVC", "KernelNuSVC") and not (
        is_of_kbench and weights is not None
    ):
        for a, b in combinations(classes, 2):
            largest_nu = 2 * min(classes[a], classes[b]) / (classes[a] + classes[b])
            if params["nu"] > largest_nu * (1 + 1e-9):  # guard: rounding
                yield (
                    f"method.nu is {params['nu']}, should be at most {largest_nu:.6g} for the "
                    f"{classes[a]} and {classes[b]} training rows of the classes {a} and {b}"
                    + "; method.class_weight=balanced makes every nu feasible"
                    * is_of_kbench
                )


def _is_list(value: Any, min_length: int = 2) -> bool:
    return isinstance(value, list) and len(value) >= min_length


def _is_a(estimator: Any, dotted: str) -> bool:
    """Whether an estimator is an instance of a class, which is not imported."""
    return any(f"{c.__module__}.{c.__qualname__}" == dotted for c in type(estimator).__mro__)
