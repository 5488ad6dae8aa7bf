"""Checks of the attributes of objects that came from a model file.

Compiled code reads arrays without bounds checks, by shapes and offsets that other attributes state,
and a file of unknown origin can state anything. A class whose arrays reach compiled code therefore
has a method `check_stored(self)`, which raises a ValueError unless dtypes, shapes that must agree,
index ranges, offsets and links are consistent. `kbench.prediction.stored_checks` calls it after
loading, once for each class of the object's bases that defines it, so it calls no `super()`. NumPy
and SciPy check their inputs themselves: classes that only they read need no such method.
"""

from typing import Any

import numpy as np

# Rows of a model have fewer features: an index of a feature is stored in 32 bits.
MAX_FEATURES = 1 << 31

_DTYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64, "u4": np.uint32}


def require(holds: Any, what: str) -> None:
    """Raise a ValueError that says `what` unless `holds`."""
    if not holds:
        raise ValueError(what)


def check_arrays(owner: Any, *, in_c_order: bool = False, **expected: str) -> dict[str, int]:
    """Check dtypes and shapes of attributes, and return the lengths of named dimensions.

    in_c_order : whether the arrays are read by their addresses, so that their order matters.
    expected : attribute -> "dtype dimension ...", the dimensions numbers or names; a name stands
        for the same length everywhere. "f4|f8" allows both; a leading "?" allows None.
    """
    lengths: dict[str, int] = {}
    for name, form in expected.items():
        array, (kinds, *dimensions) = getattr(owner, name), form.lstrip("?").split()
        if array is None and form.startswith("?"):
            continue
        allowed = [np.dtype(_DTYPES[kind]) for kind in kinds.split("|")]
        fits = isinstance(array, np.ndarray) and array.dtype in allowed
        fits = fits and array.ndim == len(dimensions)
        fits = fits and (array.flags.c_contiguous or not in_c_order)
        if fits:
            for length, dimension in zip(array.shape, dimensions, strict=True):
                wanted = int(dimension) if dimension.isdigit() else dimension
                fits = fits and length == (
                    wanted if isinstance(wanted, int) else lengths.setdefault(wanted, length)
                )
        require(fits, f"{name} should be an array of {form}, with {lengths}")
    return lengths


def check_whole(owner: Any, name: str, low: int, high: int) -> int:
    """Return the attribute `name` if it is a whole number from `low` to `high`."""
    value = getattr(owner, name)
    require(
        isinstance(value, int | np.integer) and low <= value <= high,
        f"{name} is {str(value)[:40]}, should be a whole number from {low} to {high}",
    )
    return int(value)


def check_number(owner: Any, name: str) -> float:
    """Return the attribute `name` if it is a finite number."""
    value = getattr(owner, name)
    require(
        isinstance(value, float | int | np.floating | np.integer) and np.isfinite(value),
        f"{name} is {str(value)[:40]}, should be a finite number",
    )
    return float(value)


def check_indices(array: np.ndarray, length: int, name: str) -> None:
    """Require that all entries are indices from 0 to length - 1."""
    inside = array.size == 0 or (array.min() >= 0 and array.max() < length)
    require(inside, f"{name} should be indices from 0 to {length - 1}")
