"""How the DC-SVM methods divide a training set: four kinds of clusters, and nested clusters.

Step 3 of Algorithm 1 of Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support
Vector Machines" (ICML 2014): two-step kernel k-means, and alternatives.
"""

from collections.abc import Callable, Sequence

import numpy as np

from kbench.clustering import (
    Centroids,
    KernelCentres,
    approximate_kernel_kmeans,
    sampled_kmeans,
    two_step_kernel_kmeans,
)
from kbench.methods.base.box_svc import KernelProblems
from kbench.prediction import group_rows

Division = tuple[KernelCentres | Centroids | None, np.ndarray]  # centres, labels (n,)


def _divide_by_kmeans(
    problem: KernelProblems,
    rows: np.ndarray,
    k: int,
    sample: np.ndarray,
    rng: np.random.RandomState,
) -> Division:
    has_all_rows = len(rows) == len(problem.Y)
    return sampled_kmeans(problem.X if has_all_rows else problem.X[rows], k, sample)


def _divide_by_kernel(kernel_kmeans: Callable[..., Division]) -> Callable[..., Division]:
    def divide_rows(
        problem: KernelProblems,
        rows: np.ndarray,
        k: int,
        sample: np.ndarray,
        rng: np.random.RandomState,
    ) -> Division:
        if len(rows) == len(problem.Y):
            return kernel_kmeans(problem.kernel, k, sample, rng)
        kernel = problem.kernel.take(rows)
        division = kernel_kmeans(kernel, k, sample, rng)
        problem.kernel.count(kernel.n_entries)
        return division

    return divide_rows


def _divide_at_random(
    problem: KernelProblems,
    rows: np.ndarray,
    k: int,
    sample: np.ndarray,
    rng: np.random.RandomState,
) -> Division:
    return None, rng.permutation(len(rows)) % k


# Each function divides the rows `rows` of the problem into at most k clusters, whose centres it
# finds on a sample; `sample` : (m,) has positions within `rows`. Labels are (len(rows),).
PARTITIONS: dict[str, Callable[..., Division]] = {
    "kmeans": _divide_by_kmeans,
    "kernel_kmeans": _divide_by_kernel(two_step_kernel_kmeans),
    "ghitta": _divide_by_kernel(approximate_kernel_kmeans),
    "random": _divide_at_random,
}


def divide(
    problem: KernelProblems,
    partition: str,
    n_clusters: int,
    sample: np.ndarray,
    rng: np.random.RandomState,
) -> Division:
    """Cluster the points `sample` : (m,) indices, and assign all training points to the centres.

    Returns
    -------
    centres : assigns new points; None for partition="random"
    labels : (n,) ints 0 .. k - 1; k is less than `n_clusters` if clusters stay empty
    """
    return PARTITIONS[partition](problem, np.arange(len(problem.Y)), n_clusters, sample, rng)


def nested_divisions(
    problem: KernelProblems,
    partition: str,
    sizes: Sequence[int],
    branching: int,
    sample: np.ndarray,
    rng: np.random.RandomState,
) -> list[Division]:
    """Divisions from fine to coarse whose clusters lie inside the clusters of the next division.

    As in the authors' program, all levels use one sample, and a cluster is divided only if it
    contains at least 5 m / `sizes[0]` of the sample's m points.

    sizes : numbers of clusters from fine to coarse
    branching : Largest number of clusters that one cluster is divided into
    sample : (m,) indices
    """
    centres, labels = divide(problem, partition, sizes[-1], sample, rng)
    divisions: list[Division] = [(centres, labels)]
    min_points = -(-5 * len(sample) // sizes[0])
    for _ in sizes[1:]:
        labels = _subdivide(problem, partition, branching, labels, sample, min_points, rng)
        divisions.insert(0, (None, labels))
    return divisions


def _subdivide(
    problem: KernelProblems,
    partition: str,
    branching: int,
    labels: np.ndarray,
    sample: np.ndarray,
    min_points: int,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Divide clusters of `labels` : (n,) with `min_points` sampled points; (n,) ints 0 .. k - 1."""
    new_labels = np.empty_like(labels)
    is_sampled = np.zeros(len(labels), bool)
    is_sampled[sample] = True
    n_clusters = 0
    for _, rows in group_rows(labels):
        sampled_rows = rng.permutation(np.flatnonzero(is_sampled[rows]))
        if len(sampled_rows) < min_points:
            cluster_labels = np.zeros(len(rows), np.intp)
        else:
            _, cluster_labels = PARTITIONS[partition](problem, rows, branching, sampled_rows, rng)
        new_labels[rows] = n_clusters + cluster_labels
        n_clusters += int(cluster_labels.max()) + 1
    return new_labels
