"""Support vector classifiers for several C, each started from the one before."""

import copy
from collections.abc import Iterable
from typing import Any

from kbench.methods.kernel_svc import KernelSVC


def svc_path(
    X: Any,
    y: Any,
    C_values: Iterable[float],
    *,
    sample_weight: Any = None,
    **parameters: Any,
) -> list[KernelSVC]:
    """Fit a `KernelSVC` for each value of C.

    The dual variables of one value, times the ratio of the two, are feasible for the next and keep
    those at their bound there: what `KernelSVC(warm_start=True)` does from one fit to the next.

    Parameters
    ----------
    X : (n, d) array or CSR; with kernel="precomputed" (n, n)
    y : (n,) labels
    C_values : iterable of float
        In the order in which to solve; an ascending one needs the fewest steps.
    sample_weight : (n,), optional
    **parameters
        Of `KernelSVC`, the same for all.

    Returns
    -------
    list of KernelSVC
        Fitted, in the order of C_values.

    Raises
    ------
    ValueError
        What `KernelSVC` refuses.

    Notes
    -----
    Each value pays for what changes, as the gradient at its start is known from the value before.
    Where C grows by large factors (100), rounding makes that worthless, and so much changes that a
    path takes about as long as its values alone.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kbench.methods import svc_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> [model.C for model in svc_path(X, y, [0.1, 1.0, 10.0])]
    [0.1, 1.0, 10.0]
    """
    machine = KernelSVC(**parameters | {"warm_start": True})
    models = []
    for C in C_values:
        machine.set_params(C=C).fit(X, y, sample_weight=sample_weight)
        models.append(copy.copy(machine))
    return models
