"""The parameter `max_time`, which every estimator that iterates has; described in `KernelSVC`."""

from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval

MAX_TIME: list[Any] = [Interval(Real, 0, None, closed="left"), None]


def limit(estimator: Any, reason: str) -> str:
    """A limit and its value for a message, for example "max_time=10"; `reason` is its name."""
    return f"{reason}={getattr(estimator, reason):g}"
