"""Classifiers of  min_f  nu/2 ||f||^2 + mean loss,  the SVM with C = 1 / (nu n)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.methods.base.one_vs_rest import BinaryProblems, StreamClassifier
from kbench.methods.base.survey import Survey
from kbench.methods.base.weights import relative_weights
from kbench.validated import POSITIVE, integer, usual

# Constraints of the parameters of passes over batches.
PASS_CONSTRAINTS: dict[str, list[Any]] = {
    "batch_size": [integer(1)],
    "n_epochs": [integer(1)],
    **usual("max_time"),
}


@dataclass(eq=False, repr=False, kw_only=True)
class MeanLoss(StreamClassifier):
    """Base of classifiers with the parameter nu in place of C."""

    _parameter_constraints: ClassVar[dict] = {"nu": [POSITIVE]}

    C: ClassVar[float] = 1.0  # `_targets` replaces it by 1 / (nu n)
    nu: float = 1e-4

    def _targets(self, X: Any, y: Any, sample_weight: Any) -> BinaryProblems:
        targets = super()._targets(X, y, sample_weight)
        # The mean is weighted, so that two copies of a row count as one row of twice the weight.
        return targets._replace(C=relative_weights(targets.C) / (self.nu * len(targets.C)))

    def _penalty_of_chunks(self, survey: Survey) -> float:
        return 1.0 / (self.nu * survey.n)


# Minimum number of batches if `n_epochs` is not set. At nu = 1e-4 the steps 1 / (nu t) of the 315
# batches in five passes over 4,000 rows are too long. Errors of Pegasos in % on 2,000 other rows
# with 315, 1,260 and 3,150 steps, and of LinearSVC in brackets: a9a 17.1, 15.9, 15.6 (15.4),
# covtype 32.3, 25.0, 25.0 (25.7), letter 25.7, 19.5, 18.5 (32.1), cod-rna 7.6, 5.6, 5.1 (6.2). Set
# by hand.
_MIN_STEPS = 2000


def pass_count(n: int, batch_size: int, n_epochs: int | None, min_passes: int) -> int:
    """Number of passes over n rows: `n_epochs`, or if that is None, the least number that is at
    least `min_passes` and has 2,000 batches."""
    if n_epochs is not None:
        return n_epochs
    return max(min_passes, -(-_MIN_STEPS // -(-n // batch_size)))


def random_batches(
    n: int, batch_size: int, n_epochs: int, rng: np.random.RandomState
) -> Iterator[np.ndarray]:
    """Row indices of batches of equal sizes; each pass goes over all n rows in another order."""
    for _ in range(n_epochs):
        yield from np.array_split(rng.permutation(n), -(-n // batch_size))
