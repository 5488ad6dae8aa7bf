"""Choice of the sizes of local landmark models for a given cost of prediction, by measurement.

The cost of a prediction depends on the sizes alone, so models with arbitrary landmarks behind a
real router are timed against a linear model. The largest models of each kind within the budget are
trained on four fifths of the rows, and the one with the best score on the last fifth is trained on
all rows.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import check_array, check_random_state

from kbench.cost import linear_prediction_s, median_s, unit_rows
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import LocalLandmarks, Router, float32_offset, float32_rows
from kbench.trace import Deadline, Trace
from kbench.validated import POSITIVE

# One row in five is held out for validation: with fewer the choice depends more on chance, and with
# more the candidates are trained on fewer rows. Set by hand.
_VALIDATION_FOLDS = 5
# Number of rows on which the routers of the timed models are grown: more rows make them resemble
# those of all rows more, and take more time. Set by hand.
_SAMPLE_ROWS = 10_000
# Numbers of leaves that are tried, each of which takes further fits, and the least mean number of
# rows of a leaf. Set by hand.
_LEAF_COUNTS, _MIN_LEAF_ROWS = (1, 4, 16, 32, 64, 256, 1024), 40


class TargetCost(BaseEstimator):
    """Base of estimators with a parameter `target_cost`, whose `_machine` is `LocalLandmarks`.

    Attributes
    ----------
    sizes_ : dict
        The chosen parameters.
    cost_ : float
        Measured cost of a prediction, in predictions of a linear model.
    choices_ : list of (dict, float, float)
        Candidates, their costs, and their scores on the rows held out.
    """

    _parameter_constraints: ClassVar[dict] = {"target_cost": [POSITIVE, None]}

    _machine: LocalLandmarks
    random_state: Any

    @abstractmethod
    def _candidates_by_kind(self, n: int, d: int) -> Iterable[list[dict[str, Any]]]:
        """Lists of candidate parameters, one for each kind of model, from small to large."""

    @abstractmethod
    def _stand_in_router(self, X: np.ndarray, n_leaves: int) -> Router:
        """A router that costs as much as the router of `fit`; X : (n, d) float32."""

    @abstractmethod
    def _stand_in_leaf(
        self, X: np.ndarray, sizes: dict[str, Any], n_outputs: int
    ) -> tuple[LandmarkMachine, str]:
        """A leaf that costs as much as a leaf of `fit`, and its kind of pseudo landmarks."""

    def _fit_within_cost(
        self, target_cost: float, X: Any, y: Any, sample_weight: Any, trace: Trace
    ) -> None:
        """Choose sizes, fit a clone with them, and copy its fitted attributes."""
        rows = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        targets = np.asarray(y)
        weights = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)}
        n_classes = len(np.unique(targets)) if is_classifier(self) else 2
        n_outputs = 1 if n_classes <= 2 else n_classes
        rng = check_random_state(self.random_state)
        deadline = Deadline(getattr(self, "max_time", None), trace)
        with trace.phase("choose"):
            affordable = self._affordable_sizes(target_cost, rows, n_outputs, rng)
            order = rng.permutation(rows.shape[0])
            held_out, training = np.split(order, [max(1, len(order) // _VALIDATION_FOLDS)])
            training_weights = {name: value[training] for name, value in weights.items()}
            choices = []
            for sizes, cost in affordable:
                model = self._clone_with(sizes, deadline)
                if is_classifier(self):
                    model.set_params(probability=False)
                model.fit(rows[training], targets[training], **training_weights)
                choices.append((sizes, cost, float(model.score(rows[held_out], targets[held_out]))))
            best = max(choices, key=lambda choice: (choice[2], -choice[1]))
        model = self._clone_with(best[0], deadline).fit(X, y, **weights, trace=trace)
        parameters = self.get_params()
        self.__dict__.update({k: v for k, v in vars(model).items() if k not in parameters})
        self.sizes_, self.choices_ = best[0], choices
        self.cost_ = self._relative_cost(self._machine, rows, n_outputs)

    def _relative_cost(self, machine: LocalLandmarks, X: Any, n_outputs: int) -> float:
        """Measured cost of a prediction, in predictions of a linear model."""
        rows = unit_rows(X)
        return median_s(lambda: machine(rows)) / rows.shape[0] / linear_prediction_s(X, n_outputs)

    def _clone_with(self, sizes: dict[str, Any], deadline: Deadline) -> Any:
        seconds_left = deadline.seconds_left()
        limits = {} if seconds_left is None else {"max_time": seconds_left}
        return clone(self).set_params(**sizes, target_cost=None, **limits)

    def _affordable_sizes(
        self, target_cost: float, X: Any, n_outputs: int, rng: np.random.RandomState
    ) -> list[tuple[dict[str, Any], float]]:
        """The largest sizes of each kind within the budget, and their costs."""
        sample = X[np.sort(rng.permutation(X.shape[0])[:_SAMPLE_ROWS])]
        sample = sample.toarray() if sp.issparse(sample) else sample
        offset = float32_offset(sample)
        rows = float32_rows(sample, offset)
        routers: dict[int, Router] = {}
        affordable, lowest_cost = [], np.inf
        for candidates in self._candidates_by_kind(*X.shape):
            n_leaves = candidates[0]["n_leaves"]
            if n_leaves not in routers:
                routers[n_leaves] = self._stand_in_router(rows, n_leaves)
            largest = None
            for sizes in candidates:
                leaf, pseudo = self._stand_in_leaf(rows, sizes, n_outputs)
                leaves = [leaf] * routers[n_leaves].n_leaves
                machine = LocalLandmarks(routers[n_leaves], leaves, X.shape[1], pseudo, offset)
                cost = self._relative_cost(machine, X, n_outputs)
                lowest_cost = min(lowest_cost, cost)
                if cost > target_cost:
                    break
                largest = sizes, cost
            if largest is not None:
                affordable.append(largest)
        if not affordable:
            raise ValueError(
                f"target_cost={target_cost:g} cannot be met: here the cheapest router and "
                f"leaf cost {lowest_cost:.1f} times a linear model, which is the minimum"
            )
        return affordable


def leaf_counts(n: int) -> list[int]:
    """Numbers of leaves to try for n rows."""
    return [k for k in _LEAF_COUNTS if k == 1 or k * _MIN_LEAF_ROWS <= n]
