"""A metric for the rows of one cluster, on top of the metric of all rows.

    c = (K + ridge I)^-1 Y                           on four fifths of the cluster's rows z
    M = mean of grad f grad f' over some of them,    u = M^(1/2) z
    keep u if the model of the same rows u has a lower error on the last fifth

The idea of a metric for each leaf is due to D. Beaglehole, D. Holzmuller, A. Radhakrishnan, M.
Belkin, "xRFM", 2025; there the metric of a leaf begins with the identity, and is not compared with
a metric of all rows.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from kbench.kernels import KernelMatrix
from kbench.kernels.matrix import expand
from kbench.metric.gradients import gradient_outer_product
from kbench.metric.ridge_problem import apply_root, gamma_of_width
from kbench.metric.rounds import square_root
from kbench.solvers.ridge.kernel_ridge import shifted_cholesky

# Held-out fraction of a cluster, and the fraction by which its mean squared error must fall: 2 % is
# about the sampling error of the difference on 1,000 rows. Set by hand.
_HELD_OUT_FRACTION, _MIN_GAIN = 0.2, 0.02
# Rows at which gradients are taken: more take proportionally longer, and are less noisy. Set by
# hand.
_GRADIENT_ROWS = 1500


def local_root(
    kernel: Any, name: str, Z: np.ndarray, Y: np.ndarray, ridge: float, diagonal: bool, seed: int
) -> tuple[np.ndarray, Any] | None:
    """A further map of a cluster's rows and the kernel of mapped rows, if held-out errors fall.

    kernel : Kernel of the rows Z, not bound to them
    name : the kernel's name, as `make_kernel` takes it
    Z : (n, r) float32, rows of the cluster in the metric of all rows
    Y : (n, m) targets, standardised
    ridge : added to the diagonal of the kernel matrix
    diagonal : whether the map only weighs the columns of Z

    Returns (r,) or (r, q) float64 map and the kernel with its new width, or None.

    Two Cholesky factorisations of 4n/5 rows, (4n/5)^3 / 3 multiplications each.
    """
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(Z))
    held_out, training = np.split(order, [int(_HELD_OUT_FRACTION * len(Z))])
    if not len(held_out) or not len(training):
        return None

    def fit(kernel: Any, Z: np.ndarray) -> tuple[float, KernelMatrix, np.ndarray]:
        matrix = KernelMatrix(kernel, Z[training], np.float32)
        factor = shifted_cholesky(matrix, ridge)
        coef = scipy.linalg.cho_solve(factor, Y[training].astype(np.float32), check_finite=False)
        prepared_held = matrix.kernel.prepare(Z[held_out], np.dtype(np.float32))
        predictions = expand(
            matrix.kernel, prepared_held, matrix.points(slice(None)), coef, np.float32
        )
        return float(np.mean((predictions - Y[held_out]) ** 2)), matrix, coef

    error_before, matrix, coef = fit(kernel, Z)
    rows = rng.permutation(len(training))[:_GRADIENT_ROWS]
    metric = gradient_outer_product(matrix, Z[training], coef, rows, diagonal=diagonal)
    total = float(metric.sum() if diagonal else np.trace(metric))
    if not np.isfinite(total) or total <= 0.0:
        return None
    root = np.sqrt(metric / total) if diagonal else square_root(metric / total)
    mapped = apply_root(Z, root).astype(np.float32)
    # The width keeps its ratio to the median distance.
    gamma_ratio = gamma_of_width(name, mapped, 1.0, rng) / gamma_of_width(name, Z, 1.0, rng)
    rescaled = replace(kernel, gamma=kernel.gamma * gamma_ratio)
    error_after, _, _ = fit(rescaled, mapped)
    return (root, rescaled) if error_after < (1.0 - _MIN_GAIN) * error_before else None
