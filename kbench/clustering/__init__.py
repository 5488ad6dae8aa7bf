"""Partitions of a data set: in input space and in a kernel's feature space."""

from kbench.clustering.kernel_kmeans import KernelCentres, kernel_kmeans, two_step_kernel_kmeans
from kbench.clustering.kmeans import Centroids, kmeans_centroids, sampled_kmeans
from kbench.clustering.tree import KMeansTree, kmeans_tree
from kbench.clustering.weighted import weighted_kmeans

__all__ = [
    "Centroids",
    "KMeansTree",
    "KernelCentres",
    "kernel_kmeans",
    "kmeans_centroids",
    "kmeans_tree",
    "sampled_kmeans",
    "two_step_kernel_kmeans",
    "weighted_kmeans",
]
