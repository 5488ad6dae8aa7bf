"""Complete trees of hyperplanes with a gated linear function in each node, for prediction by LDKL.

Jose, Goyal, Aggrwal and Varma, "Local Deep Kernel Learning for Efficient Non-linear SVM Prediction"
(ICML 2013), equation (4), with trained vectors. tanh t is computed as sign(t) (1 - e) / (1 + e)
with e = exp(-2 |t|), which LLVM vectorises; its error is at most 1e-7.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.intrinsics.landmark_tiles import LANES, weighted_sum
from kbench.kernels.tiles import LOG2_E, power_of_two
from kbench.prediction.flops import TRANSCENDENTAL, require_width
from kbench.prediction.landmark_layout import aligned
from kbench.prediction.landmarks import float32_rows
from kbench.stored import MAX_FEATURES, check_arrays, check_number, check_whole

# Number of rows that descend a level together, so that the processor overlaps their independent
# inner products. Larger groups take a larger buffer of padded rows. Set by hand.
_GROUP_ROWS = 32
# CSR rows are converted to dense float32 rows in blocks of at most this many values, 64 MiB: larger
# blocks take more memory, smaller blocks cost more calls. Set by hand.
_DENSE_VALUES = 2**24


@njit(fastmath={"contract", "nsz", "nnan", "ninf"}, nogil=True, cache=True)
def _walk(X, nodes, biases, depth, sigma, values):
    """Write values : (u, m) of C-contiguous float32 rows X : (u, d).

    nodes : (m, M, 3, width) and biases : (m, M, 3) of w, p and q; width is d, padded with zeros to
    the next multiple of sixteen.
    """
    d, width = X.shape[1], nodes.shape[3]
    n_blocks, zero, one = width // LANES, np.float32(0.0), np.float32(1.0)
    scale = np.float32(-2.0 * LOG2_E) * sigma
    padded = np.zeros((_GROUP_ROWS, width), np.float32)
    local, gate = np.empty(_GROUP_ROWS, np.float32), np.empty(_GROUP_ROWS, np.float32)
    total, node = np.empty(_GROUP_ROWS, np.float32), np.empty(_GROUP_ROWS, np.int64)
    for start in range(0, X.shape[0], _GROUP_ROWS):
        n = min(_GROUP_ROWS, X.shape[0] - start)
        for r in range(n):
            for k in range(d):
                padded[r, k] = X[start + r, k]
        for o in range(nodes.shape[0]):
            at = nodes.ctypes.data + 12 * width * nodes.shape[1] * o
            for r in range(n):
                node[r], total[r] = 0, zero
            for level in range(depth + 1):
                for r in range(n):
                    j, row_at = node[r], padded.ctypes.data + 4 * width * r
                    node_at = at + 12 * width * j
                    w, p = biases[o, j, 0], biases[o, j, 1]
                    local[r] = w + weighted_sum(row_at, node_at, n_blocks)
                    gate[r] = p + weighted_sum(row_at, node_at + 4 * width, n_blocks)
                    if level < depth:
                        turn = weighted_sum(row_at, node_at + 8 * width, n_blocks)
                        node[r] = 2 * j + 2 - np.int64(turn + biases[o, j, 2] > zero)
                for r in range(n):
                    power = power_of_two(scale * abs(gate[r]))
                    size = (one - power) / (one + power)
                    total[r] += np.copysign(size, gate[r]) * local[r]
            for r in range(n):
                values[start + r, o] = total[r]


class HyperplaneTrees:
    """f(x) = sum of tanh(sigma p'x) w'x over the nodes that x passes; x goes left if q'x > 0.

    Parameters
    ----------
    trees : (m, M, 3, d + 1) array
        For m functions, the vectors w, p and q of each node with the constant last. The vector q
        of leaves is not used. M = 2^(depth + 1) - 1.
    sigma : Factor of p'x within tanh: the larger, the steeper the gates
    offset : (d,) array or None. Subtracted from rows before they are rounded to float32.
    """

    def __init__(self, trees: np.ndarray, sigma: float, offset: np.ndarray | None) -> None:
        self.n_features = trees.shape[-1] - 1
        padding = -self.n_features % LANES
        vectors = np.pad(trees[..., :-1], [(0, 0)] * 3 + [(0, padding)]).astype(np.float32)
        self.nodes = aligned(vectors.ravel()).reshape(vectors.shape)
        self.biases = np.ascontiguousarray(trees[..., -1], np.float32)
        self.depth = (trees.shape[1] + 1).bit_length() - 2
        self.sigma, self.offset = sigma, offset

    @property
    def n_parameters(self) -> int:
        return self.biases.size * (self.n_features + 1)

    @property
    def nbytes(self) -> int:
        offset = 0 if self.offset is None else self.offset.nbytes
        return self.nodes.nbytes + self.biases.nbytes + offset

    def flops(self) -> float:
        """Cost of a row in products of d numbers; tanh counts as TRANSCENDENTAL multiplications."""
        m, d = len(self.nodes), self.n_features
        return m * (3 * self.depth + 2 + TRANSCENDENTAL * (self.depth + 1) / d)

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) array or CSR; (u, m) float64, computed in float32.

        O(u d log M) time.
        """
        require_width(X, self.n_features)
        outputs = np.empty((X.shape[0], len(self.nodes)))
        batch = len(outputs) or 1
        if sp.issparse(X):
            batch = max(_DENSE_VALUES // self.n_features, 1)
        for start in range(0, len(outputs), batch):
            rows = float32_rows(X[start : start + batch], self.offset)
            out = outputs[start : start + batch]
            _walk(rows, self.nodes, self.biases, self.depth, np.float32(self.sigma), out)
        return outputs

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        d = check_whole(self, "n_features", 1, MAX_FEATURES)
        depth = check_whole(self, "depth", 0, 30)  # guard: the number of nodes stays below 2^31
        width, nodes = -(-d // LANES) * LANES, 2 ** (depth + 1) - 1
        check_arrays(
            self,
            in_c_order=True,
            nodes=f"f4 m {nodes} 3 {width}",
            biases=f"f4 m {nodes} 3",
            offset=f"?f8 {d}",
        )
        check_number(self, "sigma")
