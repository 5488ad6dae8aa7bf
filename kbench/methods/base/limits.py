"""The parameter `max_time`, which every estimator that iterates has; described in `KernelSVC`."""

from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval

MAX_TIME: list[Any] = [Interval(Real, 0, None, closed="left"), None]


def limit(estimator: Any, reason: str) -> str:
    """A limit and its value for a message, for example "max_time=10"; `reason` is its name."""
    return f"{reason}={getattr(estimator, reason):g}"


def refuse_with_chunks(estimator: Any) -> None:
    """ValueError if an estimator that is fitted to rows in chunks has a `max_time`."""
    if getattr(estimator, "max_time", None) is not None:
        raise ValueError(
            "max_time ends the fit of rows in memory; a fit of rows in chunks may be interrupted "
            "and goes on with the same scratch"
        )
