"""Classifiers of  min_f  nu/2 ||f||^2 + mean loss,  the SVM with C = 1 / (nu n)."""

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from kbench.methods._limits import MAX_TIME
from kbench.methods._one_vs_rest import OneVsRest, Targets
from kbench.methods._survey import Survey

# Constraints of the parameters of passes over batches.
PASSES: dict[str, list[Any]] = {
    "batch_size": [Interval(Integral, 1, None, closed="left")],
    "n_epochs": [Interval(Integral, 1, None, closed="left")],
    "max_time": MAX_TIME,
}


class MeanLoss(OneVsRest):
    """Base of classifiers with the parameter nu in place of C."""

    _parameter_constraints: ClassVar[dict] = {"nu": [Interval(Real, 0, None, closed="neither")]}

    C: ClassVar[float] = 1.0
    nu: float

    def _targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        targets = super()._targets(X, y, sample_weight)
        return targets._replace(C=targets.C / (self.nu * len(targets.C)))

    def _penalty_of_chunks(self, survey: Survey) -> float:
        return 1.0 / (self.nu * survey.n)


def random_batches(
    n: int, batch_size: int, n_epochs: int, rng: np.random.RandomState
) -> Iterator[np.ndarray]:
    """Row indices of batches of equal sizes; each pass goes over all n rows in another order."""
    for _ in range(n_epochs):
        yield from np.array_split(rng.permutation(n), -(-n // batch_size))
