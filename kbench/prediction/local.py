"""Early prediction: a point is judged by the machine of its own cluster only.

Hsieh, Si and Dhillon (ICML 2014), section 4, equation (11). With s centres in k even clusters a row
costs s/k kernel values and its assignment instead of s.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class Machine(Protocol):
    """A function of rows X : (b, d) -> (b, m) that knows what a row costs."""

    def flops(self, n_features: int) -> float: ...

    def __call__(self, X: Any) -> np.ndarray: ...


def group_rows(labels: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """(cluster, its row numbers in order) for each cluster that occurs. O(u log u)."""
    order = np.argsort(labels, kind="stable")
    clusters, starts = np.unique(labels[order], return_index=True)
    return list(zip(clusters.tolist(), np.split(order, starts[1:]), strict=True))


class LocalMachines:
    """One function (or m of them) for each cluster.

    Parameters
    ----------
    assign : callable
        X : (u, d) -> (u,) cluster numbers.
    machines : sequence of Machine, or mapping
        By cluster number.
    n_outputs : int
        m
    n_products : float
        Products of two rows that `assign` takes for one.
    """

    def __init__(
        self,
        assign: Callable[[Any], np.ndarray],
        machines: Sequence[Machine] | Mapping[int, Machine],
        n_outputs: int,
        n_products: float,
    ) -> None:
        self.assign = assign
        self.machines = machines
        self.n_outputs = n_outputs
        self.n_products = n_products

    def flops(self, n_features: int) -> float:
        """Cost of a row, in products of `n_features` numbers, if clusters are alike in size."""
        machines = self.machines
        values = machines.values() if isinstance(machines, Mapping) else machines
        counts = [machine.flops(n_features) for machine in values]
        return self.n_products + float(np.mean(counts))

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u, m) float64."""
        values = np.empty((X.shape[0], self.n_outputs))
        for cluster, rows in group_rows(self.assign(X)):
            values[rows] = self.machines[cluster](X[rows])
        return values
