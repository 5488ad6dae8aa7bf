"""How the DC-SVM methods divide a training set: four kinds of clusters, nested ones among them."""

from collections.abc import Callable

import numpy as np

from kbench.clustering import (
    Centroids,
    KernelCentres,
    approximate_kernel_kmeans,
    sampled_kmeans,
    two_step_kernel_kmeans,
)
from kbench.methods._box_svc import Problem
from kbench.prediction import group_rows

Division = tuple[KernelCentres | Centroids | None, np.ndarray]  # centres, labels (n,)


def _by_kmeans(
    problem: Problem, rows: np.ndarray, k: int, sample: np.ndarray, rng: np.random.RandomState
) -> Division:
    whole = len(rows) == len(problem.Y)
    return sampled_kmeans(problem.X if whole else problem.X[rows], k, sample)


def _by_kernel(method: Callable[..., Division]) -> Callable[..., Division]:
    def partition(
        problem: Problem, rows: np.ndarray, k: int, sample: np.ndarray, rng: np.random.RandomState
    ) -> Division:
        if len(rows) == len(problem.Y):
            return method(problem.kernel, k, sample, rng)
        kernel = problem.kernel.take(rows)
        division = method(kernel, k, sample, rng)
        problem.kernel.count(kernel.n_entries)
        return division

    return partition


def _at_random(
    problem: Problem, rows: np.ndarray, k: int, sample: np.ndarray, rng: np.random.RandomState
) -> Division:
    return None, rng.permutation(len(rows)) % k


PARTITIONS: dict[str, Callable[..., Division]] = {
    "kmeans": _by_kmeans,
    "kernel_kmeans": _by_kernel(two_step_kernel_kmeans),
    "ghitta": _by_kernel(approximate_kernel_kmeans),
    "random": _at_random,
}


def divide(
    problem: Problem,
    partition: str,
    n_clusters: int,
    sample: np.ndarray,
    rng: np.random.RandomState,
) -> Division:
    """Clusters of all training points, found on `sample` : (m,) indices.

    Returns
    -------
    centres : what assigns new points; None for partition="random"
    labels : (n,) ints without gaps; fewer clusters than asked where some stay empty
    """
    return PARTITIONS[partition](problem, np.arange(len(problem.Y)), n_clusters, sample, rng)


def split(
    problem: Problem,
    partition: str,
    branching: int,
    labels: np.ndarray,
    sample: np.ndarray,
    smallest: int,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Clusters inside the clusters `labels` : (n,), at most `branching` in each.

    A cluster with fewer than `smallest` points of the sample stays whole.

    Returns
    -------
    (n,) ints without gaps
    """
    finer = np.empty_like(labels)
    sampled = np.zeros(len(labels), bool)
    sampled[sample] = True
    n_clusters = 0
    for _, rows in group_rows(labels):
        own = rng.permutation(np.flatnonzero(sampled[rows]))
        if len(own) < smallest:
            inner = np.zeros(len(rows), np.intp)
        else:
            _, inner = PARTITIONS[partition](problem, rows, branching, own, rng)
        finer[rows] = n_clusters + inner
        n_clusters += int(inner.max()) + 1
    return finer
