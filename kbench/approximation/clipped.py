"""Sizes that users set without knowing how many rows there are."""

import warnings

from kbench.errors import level_of_caller


def clipped(name: str, size: int, n_samples: int) -> int:
    """`size`, or `n_samples` with a UserWarning if that is less, as scikit-learn's Nystroem does.

    name : the parameter, for the warning
    """
    if size <= n_samples:
        return size
    warnings.warn(
        f"{name}={size} is more than n_samples={n_samples}: {n_samples} is used",
        UserWarning,
        stacklevel=level_of_caller(),
    )
    return n_samples
