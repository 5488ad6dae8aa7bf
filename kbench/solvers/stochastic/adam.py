"""Adam: gradient steps scaled by running moments of the gradient.

Kingma and Ba, "Adam: A Method for Stochastic Optimization" (ICLR 2015), Algorithm 1, with a step
size that falls as half a cosine to zero (Loshchilov and Hutter, "SGDR", ICLR 2017, equation (5)
without restarts). For gradient g at step t = 1, 2, ..., T:

    m <- beta1 m + (1 - beta1) g,    v <- beta2 v + (1 - beta2) g^2
    x <- x - rate_t (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
    rate_t = rate (1 + cos(pi (t - 1) / T)) / 2

`adam_step` works on contiguous float32 vectors and is called by compiled code and by NumPy code.
"""

import numpy as np
from numba import njit

# beta1 is the paper's; beta2 is less than the paper's 0.999, because fits take only hundreds to a
# few thousand steps (`scripts/bench_fast_prediction.py`).
BETA1, BETA2 = 0.9, 0.99


@njit(fastmath={"contract", "nsz", "nnan", "ninf", "arcp"}, cache=True)
def adam_step(values, gradient, moments, rate, gradient_scale, step, epsilon):
    """Take one step in place, and set the gradient to zero.

    values, gradient : (k,) float32, C-contiguous. g = gradient_scale * gradient.
    moments : (2, k) float32. m and v, zeros before the first step.
    rate, gradient_scale, epsilon : float
    step : int. t, from 1 on.
    """
    rate = np.float32(rate * (1.0 / (1.0 - BETA1**step)))
    correction = np.float32(1.0 / (1.0 - BETA2**step))
    scale, epsilon, one = np.float32(gradient_scale), np.float32(epsilon), np.float32(1.0)
    beta1, beta2 = np.float32(BETA1), np.float32(BETA2)
    first, second = moments[0], moments[1]
    for j in range(values.shape[0]):
        g = gradient[j] * scale
        first[j] = beta1 * first[j] + (one - beta1) * g
        second[j] = beta2 * second[j] + (one - beta2) * g * g
        values[j] -= rate * first[j] / (np.sqrt(second[j] * correction) + epsilon)
        gradient[j] = np.float32(0.0)


@njit(cache=True)
def cosine_factor(step, n_steps):
    """Return the factor of the step size in step `step` = 0, 1, ... of n_steps; 1 in step 0."""
    return 0.5 * (1.0 + np.cos(np.pi * step / n_steps))
