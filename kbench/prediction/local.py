"""Early prediction: a row is evaluated by the model of its cluster only.

Hsieh, Si and Dhillon (ICML 2014), section 4, equation (11). With s centres in k clusters of equal
size, a row costs its assignment and s/k kernel values instead of s.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class RowFunction(Protocol):
    """A function of rows X : (b, d) -> (b, m) with a cost for each row."""

    def flops(self, n_features: int) -> float:
        """Cost of a row, in products of `n_features` numbers."""

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (b, d); (b, m) float64."""


def group_rows(labels: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """(cluster, sorted row numbers) for each cluster that occurs in labels : (u,). O(u log u)."""
    order = np.argsort(labels, kind="stable")
    clusters, starts = np.unique(labels[order], return_index=True)
    return list(zip(clusters.tolist(), np.split(order, starts[1:]), strict=True))


class LocalMachines:
    """m functions for each cluster.

    Parameters
    ----------
    assign : callable
        X : (u, d) -> (u,) cluster numbers.
    machines : sequence of RowFunction, or mapping
        By cluster number.
    n_outputs : int
        m
    n_products : float
        Inner products of two rows that `assign` takes for each row.
    """

    def __init__(
        self,
        assign: Callable[[Any], np.ndarray],
        machines: Sequence[RowFunction] | Mapping[int, RowFunction],
        n_outputs: int,
        n_products: float,
    ) -> None:
        self.assign = assign
        self.machines = machines
        self.n_outputs = n_outputs
        self.n_products = n_products

    def flops(self, n_features: int) -> float:
        """Mean cost of a row over clusters of equal size, in products of `n_features` numbers."""
        machines = self.machines
        all_machines = machines.values() if isinstance(machines, Mapping) else machines
        costs = [machine.flops(n_features) for machine in all_machines]
        return self.n_products + float(np.mean(costs))

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u, m) float64."""
        outputs = np.empty((X.shape[0], self.n_outputs))
        for cluster, rows in group_rows(self.assign(X)):
            outputs[rows] = self.machines[cluster](X[rows])
        return outputs
