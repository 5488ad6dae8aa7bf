"""Partitions of a data set: in input space and in a kernel's feature space."""

from kbench.clustering.kernel_kmeans import KernelCentres, kernel_kmeans, two_step_kernel_kmeans
from kbench.clustering.kmeans import Centroids, kmeans_centroids, sampled_kmeans

__all__ = [
    "Centroids",
    "KernelCentres",
    "kernel_kmeans",
    "kmeans_centroids",
    "sampled_kmeans",
    "two_step_kernel_kmeans",
]
