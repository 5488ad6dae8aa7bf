"""
How close, for how much memory
==============================

Approximations of one kernel matrix, by the numbers that they store. Every approximation has
``fit(X)`` and ``kernel_matrix(X)``, a linear operator with rows, products and solutions.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import rbf_kernel

from kbench.approximation import (
    BKA,
    MEKA,
    HSSMatrix,
    RandomFeatures,
    SpectralNystrom,
    kernel_error,
)

X, _ = make_blobs(3000, 6, centers=10, cluster_std=0.5, center_box=(0, 4), random_state=0)
rows = np.random.default_rng(0).choice(3000, 200, replace=False)
given = {"gamma": 0.5, "random_state": 0}
families = {
    "random Fourier features": [RandomFeatures(rank, **given) for rank in (32, 128, 512)],
    "Nystrom": [SpectralNystrom(rank, **given) for rank in (32, 128, 512)],
    "MEKA": [MEKA(rank, n_clusters=10, **given) for rank in (32, 128, 300)],
    "BKA": [BKA(n_clusters, **given) for n_clusters in (20, 10, 5)],
    "HSS": [HSSMatrix(preset=preset, **given) for preset in ("fast", "accurate", "precise")],
}

# %%
# The error is that of 200 rows of the matrix, relative to these rows.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")


def exact(rows):
    """Rows of the kernel matrix itself: (a, 3000)."""
    return rbf_kernel(X[rows], X, gamma=0.5)


for name, approximations in families.items():
    matrices = [approximation.fit(X).kernel_matrix(X) for approximation in approximations]
    megabytes = [matrix.nbytes_ / 1e6 for matrix in matrices]
    errors = [kernel_error(exact, matrix, rows) for matrix in matrices]
    axes.loglog(megabytes, errors, marker="o", label=name)
    print(f"{name:24}", *(f"{m:6.2f} MB: {e:.1e};" for m, e in zip(megabytes, errors, strict=True)))
axes.axvline(4 * 3000**2 / 1e6, color="black", linestyle="dotted", label="the matrix itself")
axes.set(xlabel="megabytes", ylabel="relative error", title="kernel matrix of 3,000 points")
axes.grid(alpha=0.3)
axes.legend()
