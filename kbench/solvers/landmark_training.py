"""Training of Gaussian landmarks, their widths and coefficients by stochastic gradients.

    f(x) = c + sum_j b_j 2^(-s_j ||z - u_j||^2),    min  sum_i w_i sum_o loss(f_o(x_i), t_io)

by Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015) on u, log s, b, c,
with a step that falls as a cosine to zero (Loshchilov and Hutter, "SGDR", ICLR 2017). The loss is
(f - t)^2 / 2; with margins, it is zero where f is beyond t = 1 or t = -1: the squared hinge.
"""

import numpy as np
from numba import njit, types

from kbench.kernels.tiles import power_of_two

_FLAGS = {"contract", "nsz", "nnan", "ninf"}
_BETA1, _BETA2, _EPSILON = 0.9, 0.99, 1e-6
_BATCH = 32
_LN2 = 0.6931472

_matrix = types.Array(types.float32, 2, "C", readonly=True)
_vector = types.Array(types.float32, 1, "C", readonly=True)


@njit(
    types.void(types.float32[::1], types.float32[::1], types.float32[:, ::1], *[types.float64] * 4),
    fastmath={"contract", "nsz", "nnan", "ninf", "arcp"},
    cache=True,
)
def _step(values, gradient, moments, rate, share, correction1, correction2):
    """Adam's step on values, with gradient * share; clears the gradient."""
    rate, share = np.float32(rate * correction1), np.float32(share)
    beta1, beta2 = np.float32(_BETA1), np.float32(_BETA2)
    correction, epsilon, one = np.float32(correction2), np.float32(_EPSILON), np.float32(1.0)
    first, second = moments[0], moments[1]
    for j in range(values.shape[0]):
        g = gradient[j] * share
        first[j] = beta1 * first[j] + (one - beta1) * g
        second[j] = beta2 * second[j] + (one - beta2) * g * g
        values[j] -= rate * first[j] / (np.sqrt(second[j] * correction) + epsilon)
        gradient[j] = np.float32(0.0)


@njit(
    types.void(
        _matrix,
        _matrix,
        _vector,
        types.boolean,
        types.float32[:, ::1],
        types.float32[::1],
        types.float32[:, ::1],
        types.float32[::1],
        types.int64,
        types.float64,
        types.float64,
        types.int64,
    ),
    fastmath=_FLAGS,
    nogil=True,
    cache=True,
)
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
    """Train in place.

    Parameters
    ----------
    Z : (n, f) float32
    targets : (n, q) float32
    weights : (n,) float32
    margins : bool
        Whether values beyond a target of 1 or -1 cost nothing.
    landmarks : (f, m) float32
        By features: their entries for all landmarks are next to one another.
    log_widths : (m,) float32
        log s; m is a multiple of four
    coef : (q, m) float32
    constant : (q,) float32
    epochs : int
    rate, coef_rate : float
        First steps for landmarks (half of it for widths), and for coefficients.
    seed : int
        Of the order of the rows.

    Notes
    -----
    O(epochs n m (f + q)) time.
    """
    n, f = Z.shape
    q, m = coef.shape
    # Of compiled code, which has a generator of its own.
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
    total, step = epochs * ((n + _BATCH - 1) // _BATCH), 0
    for _ in range(epochs):
        np.random.shuffle(order)  # noqa: NPY002
        for start in range(0, n, _BATCH):
            stop = min(n, start + _BATCH)
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
                wrong = False
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
                    wrong = wrong or r != zero
                if not wrong:
                    continue
                for o in range(q):
                    r, b, g = residual[o], coef[o], g_coef[o]
                    g_constant[o] += r
                    for j in range(m):
                        g[j] += r * values[j]
                        factors[j] += r * b[j] * values[j]
                for j in range(m):
                    # d/du_k of 2^(-s |z-u|^2) is 2 s ln 2 (z_k - u_k); Adam sees no common factor.
                    g_widths[j] -= factors[j] * squares[j] * widths[j] * np.float32(_LN2)
                    factors[j] *= np.float32(2.0 * _LN2) * widths[j]
                for k in range(f):
                    z, u, g = Z[i, k], landmarks[k], g_landmarks[k]
                    for j in range(m):
                        g[j] += factors[j] * (z - u[j])
            step += 1
            fall = 0.5 * (1.0 + np.cos(np.pi * step / total))
            share = 1.0 / (stop - start)
            first, second = 1.0 / (1.0 - _BETA1**step), 1.0 / (1.0 - _BETA2**step)
            for k in range(f):
                _step(
                    landmarks[k], g_landmarks[k], m_landmarks[k], fall * rate, share, first, second
                )
            for o in range(q):
                _step(coef[o], g_coef[o], m_coef[o], fall * coef_rate, share, first, second)
            _step(log_widths, g_widths, m_widths, 0.5 * fall * rate, share, first, second)
            _step(constant, g_constant, m_constant, fall * coef_rate, share, first, second)
            for j in range(m):
                widths[j] = np.exp(log_widths[j])
