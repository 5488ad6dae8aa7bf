"""Limits of fits in messages and with rows in chunks, and parameters of one number or a list."""

from collections.abc import Callable
from typing import Any

import numpy as np


def checked_numbers(
    name: str, parameter: Any, requirement: str, is_valid: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """One number or a list of numbers as (k,) float64; a ValueError if one number is not valid."""
    try:
        numbers = np.asarray(parameter, np.float64)
    except (TypeError, ValueError):  # a mapping, or texts
        numbers = np.empty(0)
    if numbers.ndim > 1 or not numbers.size or not is_valid(numbers).all():
        raise ValueError(f"{name} must be {requirement}, got {parameter!r}")
    return np.atleast_1d(numbers)


def limit_text(estimator: Any, reason: str) -> str:
    """A limit and its value for a message, for example "max_time=10"; `reason` is its name."""
    return f"{reason}={getattr(estimator, reason):g}"


def refuse_max_time(estimator: Any) -> None:
    """Raise a ValueError if an estimator that is fitted to rows in chunks has a `max_time`."""
    if getattr(estimator, "max_time", None) is not None:
        raise ValueError(
            "max_time is not for rows in chunks; leave it out: a fit of rows in chunks that was "
            "interrupted continues if it is started again with the same scratch folder"
        )
