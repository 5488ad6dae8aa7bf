"""Partitions of a data set: in input space and in a kernel's feature space.

Modules compute k-means and its trees, kernel k-means, trees that compare single features, nearest
neighbours and copied rows, and write the rows of clusters to disk. Only `axis_tree` and `copies`
use targets. Matrices on a tree of clusters are in `kbench.approximation`, methods that divide the
rows in `kbench.methods.divide`.
"""

from kbench.clustering.cluster_tree import ClusterTree, cluster_tree
from kbench.clustering.kernel_kmeans import (
    KernelCentres,
    approximate_kernel_kmeans,
    kernel_kmeans,
    mean_weights,
    two_step_kernel_kmeans,
)
from kbench.clustering.kmeans import Centroids, kmeans_centroids, sampled_kmeans
from kbench.clustering.kmeans_tree import KMeansTree, kmeans_tree
from kbench.clustering.neighbours import nearest_neighbours
from kbench.clustering.weighted import weighted_kmeans

__all__ = [
    "Centroids",
    "ClusterTree",
    "KMeansTree",
    "KernelCentres",
    "approximate_kernel_kmeans",
    "cluster_tree",
    "kernel_kmeans",
    "kmeans_centroids",
    "kmeans_tree",
    "mean_weights",
    "nearest_neighbours",
    "sampled_kmeans",
    "two_step_kernel_kmeans",
    "weighted_kmeans",
]
