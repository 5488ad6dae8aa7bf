"""Estimators composed of a part, such as a kernel approximation or a feature map."""

from typing import Any

from sklearn.base import clone


def fresh_part(part: Any, default: Any, random_state: Any) -> Any:
    """An unfitted copy of a part, so that `fit` does not change the parameter.

    part : estimator or None. The parameter; None means `default`.
    default : estimator
    random_state : int, RandomState or None
        Replaces a `random_state` of None, so that the outer estimator's seed decides everything.
    """
    copy = clone(default if part is None else part)
    if "random_state" in copy.get_params(deep=False) and copy.random_state is None:
        copy.set_params(random_state=random_state)
    return copy
