"""Functional gradient descent on random batches of rows and random blocks of features.

Dai, Xie, He, Liang, Raj, Balcan and Song, "Scalable Kernel Methods via Doubly Stochastic Gradients"
(NIPS 2014), Algorithms 1 and 2 by blocks, and the preconditioner of the code that its authors
released. For  min_f  E l(f(x), y) + nu/2 ||f||^2,  f = sum_j Phi_j A_j:

    for t = 0, 1, ...
      draw a batch (X, Y) of b rows and a block j of features, a new one while there are fewer than
      max_blocks, else a random one
      R   = w l'(f(X), Y),   G = Phi_j(X)' R / b,   gamma_t = step_size / (1 + step_decay t)
      A_i <- (1 - gamma_t nu) A_i                                     for all blocks i
      A_j <- A_j - gamma_t G                                          plain
      A_j <- [A_j before the decay]
             - gamma_t (Phi_j' w Phi_j / b + (nu + ridge) I)^-1 (G + nu A_j)   preconditioned

with w the weights of the rows, 1 by default.

In the preconditioned step the gradient is preconditioned and the decay is not. f therefore does
not approach the minimum, but the point where nu f = -K (K + b (nu + ridge) I)^-1 R. To reach the
minimum, the steps t = newton_from + s, s = 0, 1, ..., are Newton steps of the whole objective. With
m = nu + ridge, and the operator T that is estimated from Phi_j and the curvature W of the loss,
these use the identity (T + m I)^-1 f = (f - (T + m I)^-1 T f) / m:

      gamma_s = 1 / (1 + s)
      A_i <- (1 - gamma_s nu / m) A_i                                 for all blocks i
      A_j <- A_j - gamma_s (Phi_j' w W Phi_j / b + m I)^-1 Phi_j' w (l' - nu / m W f(X)) / b

The inverse and the gradient that it multiplies are estimated from the same features and rows, so
the mean step is 0 near the minimum and not exactly at the minimum. The squared distance to the
minimum falls as O(1 / s) down to the mean squared distance between the minimum and the minima on
one block and one batch.

All A_i have one common scale, so that the decay is one multiplication. f(X) evaluates every block.
If a batch comes again, its stored function values (`Memory`) are reused, and only the blocks added
since then are evaluated.

A step needs only sums over the rows of its batch, so shards of a batch may be summed in other
processes. Another division into shards changes the rounding of a step, and nothing else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from kbench.approximation.seeded import philox
from kbench.approximation.seeded.seeded_features import SeededFeatures
from kbench.intrinsics.products import matmul
from kbench.solvers.stochastic.losses import LOSSES

# Guard: smallest nu + ridge with which the Gram matrix of a block is factorised in float32, else in
# float64. The matrix has eigenvalues of at most 1, and float32 changes them by about 1e-7.
_FLOAT32_RIDGE = 1e-5
# Rows whose features (4 D bytes each) are held at a time for the Gram matrix: more rows make its
# products faster, and take more memory. Set by hand.
_GRAM_ROWS = 2048
# Guard: a scale below this is multiplied into the coefficients, before it leaves float32's range.
_SMALLEST_SCALE = 1e-6
# Guard: smallest decay of a step; a decay of 0 would leave no scale to divide by.
_MIN_DECAY = 1e-12
_DIVERGED = 1e30  # guard: a loss or a change of a coefficient above this means divergence
# Philox stream of the random choice of blocks; those of features are at most 1 << 17
# (`kbench.approximation.seeded.seeded_features`).
_BLOCK_STREAM = 1 << 18


# Results of function(*task), in the order of the tasks, as `itertools.starmap`.
Compute = Callable[[Callable[..., Any], list[tuple[Any, ...]]], Iterable[Any]]


class Memory:
    """Values of the first `n_blocks` blocks at the rows of a batch, divided by the scale."""

    def __init__(self, n_rows: int, n_outputs: int) -> None:
        self.values = np.zeros((n_rows, n_outputs))
        self.n_blocks = 0


@dataclass
class DoublyStochastic:
    """A function, and the steps that minimise its loss."""

    features: SeededFeatures
    loss: str  # Key of `kbench.solvers.stochastic.losses.LOSSES`
    n_outputs: int  # q
    nu: float
    step_size: float
    step_decay: float
    ridge: float
    preconditioned: bool
    max_blocks: int | None
    # First step of Newton's method, for a loss with `curvature` and nu > 0.
    newton_from: int | None = None
    average_from: int | None = None  # First step whose function is included in `averaged`
    coef: list[np.ndarray] = field(default_factory=list)  # list of (D, q) float32: A_j / scale
    scale: float = 1.0
    # Number t of steps, and number of rows of all their batches.
    n_steps: int = 0
    n_rows: int = 0
    memories: list[Memory] = field(default_factory=list)  # One for each batch that comes again
    # The sum of f over steps is sum_j Phi_j (scale_sum A_j + total_j): total_j corrects for the
    # steps before the changes of A_j.
    scale_sum: float = 0.0
    total: list[np.ndarray] = field(default_factory=list)  # (D, q) float64

    def values(self, X: Any, memory: Memory | None = None) -> np.ndarray:
        """f at rows X : (b, d) float32 array or CSR; (b, q) float64. O(b d D) time a block."""
        memory = Memory(X.shape[0], self.n_outputs) if memory is None else memory
        if self._revisits:
            memory.values[:], memory.n_blocks = 0.0, 0
        for block in range(memory.n_blocks, len(self.coef)):
            self.features.add(block, X, self.coef[block], memory.values)
        memory.n_blocks = len(self.coef)
        return self.scale * memory.values

    @property
    def _revisits(self) -> bool:
        """Whether steps change blocks that were added before, so that kept values are outdated."""
        return len(self.coef) == self.max_blocks

    def step(
        self,
        X: Any,
        Y: np.ndarray,
        memory: Memory | None = None,
        *,
        weight: np.ndarray | None = None,
        n_shards: int = 1,
        compute: Compute = starmap,
    ) -> float:
        """Take a step on a batch X : (b, d), Y : (b, q); returns its mean loss before the step.

        `weight` : (b,) are weights of the rows in the gradient and the Gram matrix. `memory` is the
        element of `memories` of this batch. The batch is divided into `n_shards` consecutive shards
        (at most one for each row), whose sums `compute` computes, here or in other processes.

        Raises ValueError: the descent diverges, or `ridge` is too small for the preconditioner.
        """
        memory = Memory(len(Y), self.n_outputs) if memory is None else memory
        if self._revisits:
            memory.values[:], memory.n_blocks = 0.0, 0
        is_newton = self.newton_from is not None and self.n_steps >= self.newton_from
        decay_per_step = self.nu / (self.nu + self.ridge)  # of Newton's method, for gamma = 1
        first, last = memory.n_blocks, len(self.coef)
        block = self._choose_block()
        ends = np.linspace(0, len(Y), min(n_shards, len(Y)) + 1).astype(int)
        shards = [slice(*pair) for pair in pairwise(ends)]
        sum_shard = partial(
            shard_sums,
            self.features,
            self.loss,
            self.scale,
            dict(zip(range(first, last), self.coef[first:last], strict=True)),
            block,
            self._gram_dtype if self.preconditioned else None,
            decay_per_step if is_newton else None,
        )
        weights = None if weight is None else weight[:, None].astype(np.float32)
        tasks = [
            (X[rows], Y[rows], memory.values[rows], None if weights is None else weights[rows])
            for rows in shards
        ]
        sums: list[ShardSums] = list(compute(sum_shard, tasks))
        for rows, shard in zip(shards, sums, strict=True):
            memory.values[rows] = shard.values
        memory.n_blocks = last
        loss = sum(shard.loss for shard in sums) / len(Y)
        if self.newton_from is not None and is_newton:
            gamma = 1.0 / (1 + self.n_steps - self.newton_from)
            decay = 1.0 - gamma * decay_per_step
        else:
            gamma = self.step_size / (1.0 + self.step_decay * self.n_steps)
            decay = 1.0 - gamma * self.nu
        before = self.scale * self.coef[block]
        nu = 0.0 if is_newton else self.nu  # Newton's gradient includes the regularisation
        change = -gamma * self._direction(block, sums, len(Y), nu * before)
        if not max(loss, np.abs(change).max()) < _DIVERGED:
            raise ValueError(
                f"the function grows beyond all bounds by step {self.n_steps}: "
                f"step_size={self.step_size:g} is too large"
            )
        if self.preconditioned and not is_newton:
            change += (1.0 - decay) * before  # the direction includes the decay of this block
        if self.n_steps:
            self._decay_scale(decay)
        after = (self.coef[block] + change / self.scale).astype(np.float32)
        if self.average_from is not None:
            self.total[block] -= self.scale_sum * (after.astype(np.float64) - self.coef[block])
        self.coef[block] = after
        if self.average_from is not None and self.n_steps >= self.average_from:
            self.scale_sum += self.scale
        self.n_steps += 1
        self.n_rows += len(Y)
        return loss

    def averaged(self) -> "DoublyStochastic":
        """The mean of the functions after the steps from `average_from` on."""
        if self.average_from is None or self.n_steps <= self.average_from:
            return self
        count = self.n_steps - self.average_from
        coef = [
            ((self.scale_sum * A.astype(np.float64) + total) / count).astype(np.float32)
            for A, total in zip(self.coef, self.total, strict=True)
        ]
        return replace(self, coef=coef, scale=1.0, memories=[])

    def state(self) -> dict[str, np.ndarray]:
        """The state that steps change, as arrays."""
        return {
            "coef": np.array(self.coef),
            "total": np.array(self.total),
            "scales": np.array([self.scale, self.scale_sum]),
            "counts": np.array([self.n_steps, self.n_rows]),
            "memory_blocks": np.array([memory.n_blocks for memory in self.memories], np.int64),
            "memory_values": np.array([v for memory in self.memories for v in memory.values]),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore the state of a descent with the same parameters and sizes of memories."""
        self.coef, self.total = list(state["coef"]), list(state["total"])
        self.scale, self.scale_sum = (float(value) for value in state["scales"])
        self.n_steps, self.n_rows = (int(value) for value in state["counts"])
        start = 0
        for memory, n_blocks in zip(self.memories, state["memory_blocks"], strict=True):
            memory.n_blocks = int(n_blocks)
            memory.values = state["memory_values"][start : start + len(memory.values)].copy()
            start += len(memory.values)

    def _choose_block(self) -> int:
        """Index of the block of this step; appends a new block of zeros if needed."""
        if self._revisits:
            seed_key = np.uint64(self.features.seed)
            random_word = philox.four_words(self.n_steps, _BLOCK_STREAM, 0, seed_key)[0]
            return int(random_word) % len(self.coef)
        shape = (self.features.n_features, self.n_outputs)
        self.coef.append(np.zeros(shape, np.float32))
        if self.average_from is not None:
            self.total.append(np.zeros(shape))
        return len(self.coef) - 1

    @property
    def _gram_dtype(self) -> type:
        return np.float32 if self.nu + self.ridge >= _FLOAT32_RIDGE else np.float64

    def _direction(
        self,
        block: int,
        sums: list["ShardSums"],
        b: int,
        regularisation: np.ndarray,  # (D, q), nu A_j
    ) -> np.ndarray:
        """G, or (Phi' Phi / b + (nu + ridge) I)^-1 (G + nu A_j); (D, q) float64."""
        G = np.sum([shard.gradient for shard in sums], axis=0) / b
        if not self.preconditioned:
            return G
        dtype = self._gram_dtype
        H = sums[0].gram
        for shard in sums[1:]:
            H += shard.gram
        H /= dtype(b)
        H[np.diag_indices_from(H)] += dtype(self.nu + self.ridge)
        posv = lapack.sposv if dtype == np.float32 else lapack.dposv
        _, direction, info = posv(H, (G + regularisation).astype(dtype), overwrite_a=1)
        if info:
            raise ValueError(
                f"ridge={self.ridge:g} is too small: the Gram matrix of block {block} on {b} rows "
                "is not positive definite"
            )
        return direction.astype(np.float64)

    def _decay_scale(self, decay: float) -> None:
        """Multiply the scale by `decay`, and a small scale into the coefficients and memories."""
        self.scale *= decay if abs(decay) > _MIN_DECAY else _MIN_DECAY
        if abs(self.scale) > _SMALLEST_SCALE:
            return
        for A, total in zip(self.coef, self.total, strict=False):
            total += self.scale_sum * A.astype(np.float64)
        for A in self.coef:
            A *= np.float32(self.scale)
        for memory in self.memories:
            memory.values *= self.scale
        self.scale, self.scale_sum = 1.0, 0.0


class ShardSums(NamedTuple):
    """Sums over one shard of a batch."""

    values: np.ndarray  # (rows, q) float64, of the blocks before this step, divided by the scale
    loss: float  # Sum over the rows
    gradient: np.ndarray  # (D, q) float64, Phi' R
    gram: Any  # (D, D) upper triangle of Phi' Phi; None for a plain step

    def __reduce__(self) -> tuple[Any, ...]:
        # Only one triangle of the Gram matrix, most of the data, is sent to another process.
        if self.gram is None:
            return ShardSums, tuple(self)
        pack = lapack.strttp if self.gram.dtype == np.float32 else lapack.dtrttp
        packed, _ = pack(self.gram)
        return _unpack_sums, (*self[:3], packed, len(self.gram))


def _unpack_sums(
    values: np.ndarray, loss: float, gradient: np.ndarray, packed: np.ndarray, D: int
) -> ShardSums:
    unpack = lapack.stpttr if packed.dtype == np.float32 else lapack.dtpttr
    gram, _ = unpack(D, packed)
    return ShardSums(values, loss, gradient, gram)


def shard_sums(
    features: SeededFeatures,
    loss: str,
    scale: float,
    coef: dict[int, np.ndarray],
    block: int,
    gram_dtype: type | None,
    newton_decay: float | None,
    X: Any,
    Y: np.ndarray,
    values: np.ndarray,
    weight: np.ndarray | None = None,
) -> ShardSums:
    """Evaluate the function at the rows of a shard, and sum gradient and Gram matrix over them.

    loss, scale : As in `DoublyStochastic`
    coef : dict of int to (D, q) float32. A_j of the blocks that `values` does not include yet.
    block : Block of the step
    gram_dtype : float32, float64 or None. None for a step without preconditioner.
    newton_decay : nu / (nu + ridge) in a step of Newton's method, otherwise None
    X : (rows, d) float32 or CSR
    Y, values : (rows, q)
    weight : (rows, 1) float32, optional. None is 1 for every row.
    """
    values = np.array(values)
    D, n_rows = features.n_features, len(Y)
    loss_sum, gradient = 0.0, np.zeros((D, Y.shape[1]))
    gram: Any = None if gram_dtype is None else np.zeros((D, D), gram_dtype, order="F")
    syrk = blas.ssyrk if gram_dtype == np.float32 else blas.dsyrk
    step = features.tile_rows if gram is None else _GRAM_ROWS
    for j, A in coef.items():
        if j != block:
            features.add(j, X, A, values)
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        Phi = np.empty((len(Y[rows]), D), np.float32)
        features.fill(block, X[rows], Phi)
        if block in coef:
            values[rows] += matmul(Phi, coef[block])
        F = scale * values[rows]
        loss_sum += len(Phi) * LOSSES[loss].value(F, Y[rows])
        slopes = LOSSES[loss].gradient(F, Y[rows])
        curvature = LOSSES[loss].curvature
        # Weights of the rows in the Gram matrix.
        gram_weights = None if weight is None else weight[rows]
        if newton_decay is not None and curvature is not None:
            curvatures = curvature(F)
            slopes -= newton_decay * curvatures * F
            gram_weights = curvatures.astype(np.float32) * (
                np.float32(1.0) if gram_weights is None else gram_weights
            )
        slopes = slopes.astype(np.float32)
        if weight is not None:
            slopes *= weight[rows]
        gradient += matmul(Phi.T, slopes)
        if gram is not None:
            if gram_weights is not None:
                Phi *= np.sqrt(gram_weights)
            gram = syrk(1.0, Phi.astype(gram_dtype, copy=False).T, beta=1.0, c=gram, overwrite_c=1)
    return ShardSums(values, loss_sum, gradient, gram)
