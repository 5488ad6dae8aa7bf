"""Complete trees of hyperplanes with a linear machine in each node, walked a row at a time."""

from typing import Any

import numpy as np
from numba import njit, types

from kbench.prediction.flops import TRANSCENDENTAL
from kbench.prediction.landmarks import float32_rows

_ROWS = types.Array(types.float32, 2, "C", readonly=True)
_NODES = types.Array(types.float32, 4, "C", readonly=True)
_BIASES = types.Array(types.float32, 3, "C", readonly=True)


@njit(
    types.void(_ROWS, _NODES, _BIASES, types.int64, types.float32, types.float64[:, ::1]),
    fastmath={"reassoc", "contract", "nsz", "nnan", "ninf"},
    nogil=True,
    cache=True,
)
def _walk(X, nodes, biases, depth, sigma, values):
    """values : (u, m) of rows X : (u, d); nodes : (m, M, 3, d), biases : (m, M, 3) of w, p, q."""
    for i in range(X.shape[0]):
        x = X[i]
        for o in range(nodes.shape[0]):
            node, value = 0, 0.0
            for level in range(depth + 1):
                w, p, q = nodes[o, node, 0], nodes[o, node, 1], nodes[o, node, 2]
                local, gate, turn = biases[o, node, 0], biases[o, node, 1], biases[o, node, 2]
                if level < depth:
                    for k in range(x.shape[0]):
                        local += x[k] * w[k]
                        gate += x[k] * p[k]
                        turn += x[k] * q[k]
                else:
                    for k in range(x.shape[0]):
                        local += x[k] * w[k]
                        gate += x[k] * p[k]
                value += np.tanh(sigma * gate) * local
                node = 2 * node + (1 if turn > 0.0 else 2)
            values[i, o] = value


class HyperplaneTrees:
    """f(x) = sum of tanh(sigma p'x) w'x over the nodes on the way of x, q'x > 0 to the left.

    Parameters
    ----------
    trees : (m, M, 3, d + 1) array
        Of m functions the vectors w, p and q of each node, the constant last; of leaves q is not
        read.
    sigma : float
    offset : (d,) array or None
        Subtracted from rows before they are rounded to float32.
    """

    def __init__(self, trees: np.ndarray, sigma: float, offset: np.ndarray | None) -> None:
        self.nodes = np.ascontiguousarray(trees[..., :-1], np.float32)
        self.biases = np.ascontiguousarray(trees[..., -1], np.float32)
        self.depth = (trees.shape[1] + 1).bit_length() - 2
        self.sigma, self.offset = sigma, offset

    @property
    def n_parameters(self) -> int:
        return self.nodes.size + self.biases.size

    @property
    def nbytes(self) -> int:
        offset = 0 if self.offset is None else self.offset.nbytes
        return self.nodes.nbytes + self.biases.nbytes + offset

    def flops(self) -> float:
        """Cost of a row in units of one product of d numbers, tanh as ten multiplications."""
        m, d = len(self.nodes), self.nodes.shape[-1]
        return m * (3 * self.depth + 2 + TRANSCENDENTAL * (self.depth + 1) / d)

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) array or CSR; (u, m) float64, computed in float32.

        O(u d log M) time.
        """
        values = np.empty((X.shape[0], len(self.nodes)))
        rows = float32_rows(X, self.offset)
        _walk(rows, self.nodes, self.biases, self.depth, np.float32(self.sigma), values)
        return values
