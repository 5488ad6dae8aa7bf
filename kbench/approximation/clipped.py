"""Sizes that users set without knowing how many rows there are."""

from kbench.errors import warn


def clipped(name: str, size: int, n_samples: int) -> int:
    """`size`, or `n_samples` with a UserWarning if that is less, as scikit-learn's Nystroem does.

    name : the parameter, for the warning
    """
    if size <= n_samples:
        return size
    warn(f"{name}={size} is more than n_samples={n_samples}: {n_samples} is used")
    return n_samples
