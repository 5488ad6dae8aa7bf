"""Training of Gaussian landmarks, their widths and coefficients by stochastic gradients.

    f(x) = c + sum_j b_j 2^(-s_j ||z - u_j||^2),    min  sum_i w_i sum_o loss(f_o(x_i), t_io)

by Adam (`kbench.solvers.stochastic.adam`) on u, log s, b and c, over random batches of rows. The
loss is (f - t)^2 / 2. With margins the loss is zero if f > t = 1 or f < t = -1, which is the
squared hinge loss.
"""

import numpy as np
from numba import njit

from kbench.kernels.tiles import power_of_two
from kbench.solvers.stochastic.adam import adam_step, cosine_factor

_FLAGS = {"contract", "nsz", "nnan", "ninf"}
# Guard, added to the root of the second moment: losses are of order 1, and the much smaller
# gradients of a landmark far from all rows must not be scaled up to full steps.
_EPSILON = 1e-6
# Rows of a step: more rows make gradients less noisy, and an epoch has fewer steps. Set by hand.
_BATCH_ROWS = 32
_LN2 = 0.6931472


@njit(fastmath=_FLAGS, nogil=True, cache=True)
def train_landmarks(
    Z,
    targets,
    weights,
    margins,
    landmarks,
    log_widths,
    coef,
    constant,
    epochs,
    rate,
    coef_rate,
    seed,
):
    """Train landmarks, widths, coefficients and constants in place.

    Z : (n, f) float32
    targets : (n, q) float32
    weights : (n,) float32
    margins : bool. Whether values beyond a target of 1 or -1 have no loss.
    landmarks : (f, m) float32
        One row for each feature, so that loops over landmarks are contiguous.
    log_widths : (m,) float32. log s; m is a multiple of four.
    coef : (q, m) float32
    constant : (q,) float32
    epochs : int
    rate, coef_rate : float
        First step sizes for landmarks (half of it for widths) and for coefficients.
    seed : int. Determines the order of the rows.

    O(epochs n m (f + q)) time.
    """
    n, f = Z.shape
    q, m = coef.shape
    # In compiled code this seeds numba's generator, not NumPy's global one.
    np.random.seed(seed)  # noqa: NPY002
    zero, one = np.float32(0.0), np.float32(1.0)
    squares, values = np.empty(m, np.float32), np.empty(m, np.float32)
    factors, widths = np.empty(m, np.float32), np.exp(log_widths)
    residual = np.empty(q, np.float32)
    g_landmarks, g_coef = np.zeros((f, m), np.float32), np.zeros((q, m), np.float32)
    g_widths, g_constant = np.zeros(m, np.float32), np.zeros(q, np.float32)
    m_landmarks, m_coef = np.zeros((f, 2, m), np.float32), np.zeros((q, 2, m), np.float32)
    m_widths, m_constant = np.zeros((2, m), np.float32), np.zeros((2, q), np.float32)
    order = np.arange(n)
    total, step = epochs * ((n + _BATCH_ROWS - 1) // _BATCH_ROWS), 0
    for _ in range(epochs):
        np.random.shuffle(order)  # noqa: NPY002
        for start in range(0, n, _BATCH_ROWS):
            stop = min(n, start + _BATCH_ROWS)
            for position in range(start, stop):
                i = order[position]
                for j in range(m):
                    squares[j] = zero
                for k in range(f):
                    z, u = Z[i, k], landmarks[k]
                    for j in range(m):
                        squares[j] += (z - u[j]) * (z - u[j])
                for j in range(m):
                    values[j] = power_of_two(-widths[j] * squares[j])
                    factors[j] = zero
                has_loss = False
                for o in range(q):
                    b = coef[o]
                    s0, s1, s2, s3 = zero, zero, zero, zero
                    for j in range(0, m, 4):
                        s0 += b[j] * values[j]
                        s1 += b[j + 1] * values[j + 1]
                        s2 += b[j + 2] * values[j + 2]
                        s3 += b[j + 3] * values[j + 3]
                    value = constant[o] + ((s0 + s1) + (s2 + s3))
                    t = targets[i, o]
                    r = weights[i] * (value - t)
                    if margins and ((t >= one and r > zero) or (t <= -one and r < zero)):
                        r = zero
                    residual[o] = r
                    has_loss = has_loss or r != zero
                if not has_loss:
                    continue
                for o in range(q):
                    r, b, g = residual[o], coef[o], g_coef[o]
                    g_constant[o] += r
                    for j in range(m):
                        g[j] += r * values[j]
                        factors[j] += r * b[j] * values[j]
                for j in range(m):
                    # d/du_k 2^(-s |z-u|^2) = 2 s ln 2 (z_k - u_k) 2^(-s |z-u|^2).
                    g_widths[j] -= factors[j] * squares[j] * widths[j] * np.float32(_LN2)
                    factors[j] *= np.float32(2.0 * _LN2) * widths[j]
                for k in range(f):
                    z, u, g = Z[i, k], landmarks[k], g_landmarks[k]
                    for j in range(m):
                        g[j] += factors[j] * (z - u[j])
            factor = cosine_factor(step + 1, total)
            step += 1
            # Widths take half of the landmarks' rate; set by hand.
            scale, u_rate, b_rate = 1.0 / (stop - start), factor * rate, factor * coef_rate
            for k in range(f):
                adam_step(
                    landmarks[k], g_landmarks[k], m_landmarks[k], u_rate, scale, step, _EPSILON
                )
            for o in range(q):
                adam_step(coef[o], g_coef[o], m_coef[o], b_rate, scale, step, _EPSILON)
            adam_step(log_widths, g_widths, m_widths, 0.5 * u_rate, scale, step, _EPSILON)
            adam_step(constant, g_constant, m_constant, b_rate, scale, step, _EPSILON)
            for j in range(m):
                widths[j] = np.exp(log_widths[j])
