"""Checks of the attributes of objects that came from a model file.

Compiled code reads arrays without bounds checks, with shapes and offsets from other attributes,
and a file of unknown origin can hold any value. A class whose arrays reach compiled code therefore
has a method `check_stored(self)`, which raises a ValueError unless dtypes, shapes that must agree,
index ranges, offsets and links are consistent. After loading, `kbench.prediction.stored_checks`
calls the method of each of the object's base classes, so the method calls no `super()`. Classes
whose arrays only NumPy and SciPy read need no such method, because these check their inputs.
"""

from typing import Any

import numpy as np

# Upper bound of the number of features, whose indices are stored in 32 bits.
MAX_FEATURES = 1 << 31

_DTYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64, "u4": np.uint32}


def require(condition: Any, message: str) -> None:
    """Raise a ValueError with `message` unless `condition` holds."""
    if not condition:
        raise ValueError(message)


def check_arrays(owner: Any, *, in_c_order: bool = False, **expected: str) -> dict[str, int]:
    """Return the lengths of named dimensions; a ValueError if dtypes or shapes are wrong.

    in_c_order : whether compiled code reads the arrays by address, so that their order matters.
    expected : attribute -> "dtype dimension ...", where dimensions are numbers or names; equal
        names stand for equal lengths. "f4|f8" allows both types; a leading "?" allows None.
    """
    lengths: dict[str, int] = {}
    for name, spec in expected.items():
        array, (kinds, *dimensions) = getattr(owner, name), spec.lstrip("?").split()
        if array is None and spec.startswith("?"):
            continue
        allowed = [np.dtype(_DTYPES[kind]) for kind in kinds.split("|")]
        is_valid = isinstance(array, np.ndarray) and array.dtype in allowed
        is_valid = is_valid and array.ndim == len(dimensions)
        is_valid = is_valid and (array.flags.c_contiguous or not in_c_order)
        if is_valid:
            for length, dimension in zip(array.shape, dimensions, strict=True):
                size = int(dimension) if dimension.isdigit() else dimension
                is_valid = is_valid and length == (
                    size if isinstance(size, int) else lengths.setdefault(size, length)
                )
        require(is_valid, f"{name} should be an array of {spec}, with {lengths}")
    return lengths


def check_whole(owner: Any, name: str, low: int, high: int) -> int:
    """Return the attribute `name`; a ValueError if it is no whole number from `low` to `high`."""
    value = getattr(owner, name)
    require(
        isinstance(value, int | np.integer) and low <= value <= high,
        f"{name} is {str(value)[:40]}, should be a whole number from {low} to {high}",
    )
    return int(value)


def check_number(owner: Any, name: str) -> float:
    """Return the attribute `name`; a ValueError if it is not a finite number."""
    value = getattr(owner, name)
    require(
        isinstance(value, float | int | np.floating | np.integer) and np.isfinite(value),
        f"{name} is {str(value)[:40]}, should be a finite number",
    )
    return float(value)


def check_indices(array: np.ndarray, length: int, name: str) -> None:
    """Raise a ValueError unless all entries are indices from 0 to length - 1."""
    inside = array.size == 0 or (array.min() >= 0 and array.max() < length)
    require(inside, f"{name} should be indices from 0 to {length - 1}")
