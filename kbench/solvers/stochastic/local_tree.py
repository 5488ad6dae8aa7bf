"""Training of a tree of gated local linear machines: local deep kernel learning (LDKL).

Jose, Goyal, Aggrwal and Varma, "Local Deep Kernel Learning for Efficient Non-linear SVM
Prediction" (ICML 2013). In a complete tree of M = 2^(T + 1) - 1 nodes, children of k are 2 k + 1
(left) and 2 k + 2, and

    f(x) = sum_k I_k(x) tanh(sigma p_k'x) w_k'x,    I_k = prod_{l above k} (1 +- t_l) / 2,

with t_l = sign(q_l'x) and the sign + if the path turns left at l, so that only the T + 1 nodes of
one path contribute. Training replaces the sign by tanh(s q_l'x) and increases s, so that the soft
tree approaches the hard one:

    min  lambda_W/2 ||W||^2 + lambda_P/2 ||P||^2 + lambda_Q/2 ||Q||^2 + mean_i c_i max(0, 1 - y_i f)

The derivatives take one sweep down the tree for the indicators I, and one up for the values V,

    V_k = tanh(sigma p_k'x) w_k'x + (1 + t_k)/2 V_left + (1 - t_k)/2 V_right,    f = V_root,
    df/dt_k = I_k (V_left - V_right) / 2.

(The derivative of an indicator in the paper's equation 18 has a wrong sign.)
"""

import itertools
from collections.abc import Callable

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.solvers.stochastic.adam import adam_step, cosine_factor
from kbench.trace import Deadline, Trace

# The mean of |s q'x| starts at 0.1 and doubles ten times in a training, as in the authors'
# implementation.
_FIRST_MEAN, _DOUBLINGS = 0.1, 10
# Steps between two updates of s, and rows whose mean |s q'x| an update computes: with fewer steps
# and more rows the mean follows its schedule more closely, at a higher cost. Set by hand.
_UPDATE_STEPS, _MEAN_ROWS = 100, 100
_EPSILON = 1e-8  # Adam's, as in the paper


def tree_sizes(depth: int) -> tuple[int, int]:
    """Return the number of nodes, and of vectors: w and p of each node, q of each inner node."""
    n_nodes = 2 ** (depth + 1) - 1
    return n_nodes, 2 * n_nodes + n_nodes // 2


def soft_tree(
    Z: np.ndarray, depth: int, sigma: float, sharpness: float
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate a soft tree, and its derivatives with respect to the products Z.

    Parameters
    ----------
    Z : (b, v)
        Products of rows with all vectors: w and then p of all nodes, then q of the inner ones.
    depth : T

    Returns
    -------
    values : (b,)
    slopes : (b, v)
        df/dZ
    """
    n_nodes, _ = tree_sizes(depth)
    local, gate = Z[:, :n_nodes], np.tanh(sigma * Z[:, n_nodes : 2 * n_nodes])
    turn = np.tanh(sharpness * Z[:, 2 * n_nodes :])
    indicator, value = np.ones_like(local), gate * local
    slopes = np.empty_like(Z)
    levels = [slice(2**level - 1, 2 ** (level + 1) - 1) for level in range(depth + 1)]
    for above, below in itertools.pairwise(levels):
        children = indicator[:, below]
        children[:, ::2] = indicator[:, above] * (1.0 + turn[:, above]) / 2.0
        children[:, 1::2] = indicator[:, above] * (1.0 - turn[:, above]) / 2.0
    slopes[:, :n_nodes] = indicator * gate
    slopes[:, n_nodes : 2 * n_nodes] = sigma * indicator * local * (1.0 - gate**2)
    for above, below in reversed(list(itertools.pairwise(levels))):
        left, right, t = value[:, below][:, ::2], value[:, below][:, 1::2], turn[:, above]
        turn_slopes = slopes[:, 2 * n_nodes :][:, above]
        turn_slopes[:] = sharpness * (1.0 - t**2) * indicator[:, above] * (left - right) / 2.0
        value[:, above] += (1.0 + t) / 2.0 * left + (1.0 - t) / 2.0 * right
    return value[:, 0], slopes


def objective(
    A: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    penalties: np.ndarray,
    depth: int,
    sigma: float,
    sharpness: float,
) -> tuple[float, np.ndarray]:
    """Return the objective, a float, and its gradient with respect to A, (v, d + 1).

    A : (v, d + 1). The vectors w, p and q.
    X : (n, d + 1). Rows with a last entry of 1.
    y : (n,) of -1 and +1
    weights : (n,). c
    penalties : (v,). Penalty lambda of each vector.
    """
    values, slopes = soft_tree(matmul(X, A.T), depth, sigma, sharpness)
    loss = np.maximum(0.0, 1.0 - y * values)
    loss_slope = -(weights * y * (loss > 0.0) / len(y)).astype(X.dtype)
    gradient = matmul((slopes * loss_slope[:, None]).T, X) + penalties[:, None] * A
    return float((weights * loss).mean() + 0.5 * matmul(penalties, (A**2).sum(axis=1))), gradient


def train_tree(
    rows: Callable[[np.ndarray], np.ndarray],
    y: np.ndarray,
    weights: np.ndarray,
    penalties: np.ndarray,
    depth: int,
    sigma: float,
    rng: np.random.RandomState,
    *,
    schedule: str,
    max_iter: int,
    batch_size: int,
    rate: float,
    deadline: Deadline,
    trace: Trace,
) -> tuple[np.ndarray, int]:
    """Train the vectors of a tree by steps on random batches of rows.

    Parameters
    ----------
    rows : (b,) indices -> (b, d + 1) float32 rows with a last entry of 1
    y : (n,) of -1 and +1
    weights : (n,). c, the weight of the loss of each row.
    penalties : (v,). Penalty lambda of each vector.
    depth : T
    sigma : Factor of p'x within tanh
    schedule : {"pegasos", "adam"}
        "pegasos" is the rule of the implementation by the authors' group: step t = 1, 2, ...
        multiplies the vectors by t / (t + 1) and subtracts 1 / (lambda sqrt(t + 1)) times the
        gradient of the loss, without the factor s in the derivative in q. "adam" uses the gradient
        of the objective and the first step size `rate` (`kbench.solvers.stochastic.adam`).
    max_iter, batch_size : Number of steps, and of rows drawn with replacement for each
    deadline : No step but the first begins after it
    trace : Receives the objective of the batch whenever s is updated

    Returns
    -------
    vectors : (v, d + 1) float32
    n_iter : int
        Steps, fewer than `max_iter` after the deadline.

    Notes
    -----
    O(max_iter batch_size M d) time.
    """
    n = len(y)
    n_nodes, n_vectors = tree_sizes(depth)
    n_columns = rows(np.zeros(1, np.intp)).shape[1]
    # Range of the first entries of w, p and q. Set by hand.
    A = rng.uniform(-1.0, 1.0, (n_vectors, n_columns)).astype(np.float32)
    sampled_rows = rows(rng.permutation(n)[:_MEAN_ROWS])
    step = _pegasos(A, penalties, n_nodes) if schedule == "pegasos" else _adam(A, rate, max_iter)
    penalties = penalties.astype(np.float32)
    sharpness = 1.0
    for t in range(max_iter):
        if t and deadline.passed:
            return A, t
        if t % _UPDATE_STEPS == 0:
            mean = np.abs(matmul(sampled_rows, A[2 * n_nodes :].T)).mean() if depth else 1.0
            growth = 2.0 ** (_DOUBLINGS * t / max_iter)
            # Guard: 1e-12 keeps s finite if all products are 0.
            sharpness = float(_FIRST_MEAN / max(float(mean), 1e-12) * growth)
        batch = rng.randint(n, size=batch_size)
        value, gradient = objective(
            A, rows(batch), y[batch], weights[batch], penalties, depth, sigma, sharpness
        )
        step(t, gradient, sharpness)
        if t % _UPDATE_STEPS == 0:
            trace(objective=value)
    return A, max_iter


def _pegasos(A: np.ndarray, penalties: np.ndarray, n_nodes: int) -> Callable[..., None]:
    """Return a function that changes A by step t = 0, 1, ...; it overwrites the gradient."""
    penalty_column = penalties[:, None].astype(np.float32)

    def step(t: int, gradient: np.ndarray, sharpness: float) -> None:
        gradient -= penalty_column * A
        gradient[2 * n_nodes :] /= sharpness
        A[:] *= (t + 1.0) / (t + 2.0)
        A[:] -= gradient / (penalty_column * np.float32(np.sqrt(t + 2.0)))

    return step


def _adam(A: np.ndarray, rate: float, max_iter: int) -> Callable[..., None]:
    values, moments = A.reshape(-1), np.zeros((2, A.size), np.float32)

    def step(t: int, gradient: np.ndarray, sharpness: float) -> None:
        flat = np.ascontiguousarray(gradient, np.float32).reshape(-1)
        adam_step(values, flat, moments, rate * cosine_factor(t, max_iter), 1.0, t + 1, _EPSILON)

    return step
