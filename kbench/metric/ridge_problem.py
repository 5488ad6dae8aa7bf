"""Ridge models of one metric: standardised rows, targets, and held-out errors."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from kbench import class_labels
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.kernels.matrix import expand
from kbench.kernels.named import make_kernel
from kbench.metric.columns import ColumnMap
from kbench.solvers.ridge.kernel_ridge import shifted_cholesky

# Kernel widths in units of the median distance between training rows under the current metric.
# On kin40k, protein, wine and pendigits the better of matern12 and rbf is within 2 % of the lowest
# held-out error over the widths 1/4, 1/2, 1 and 2 (`scripts/bench_metric.py widths`). The width
# of the Laplacian kernel is not measured; it is that of matern12, also an exponential kernel.
_WIDTHS = {"matern12": 1.0, "rbf": 0.5, "laplacian": 1.0}
# Number of rows whose pairwise distances estimate the median: 500 rows give 125,000 pairs, and the
# time grows with the square of the number. Set by hand.
_MEDIAN_ROWS = 500
# Weight of the squared error of a classifier beside its error rate. With n >= 800 held-out rows,
# squared errors only decide between equal rates; with fewer rows the weight grows as (800 / n)^2.
# With 60 held-out rows an error count is uncertain by about 4 rows, so the lowest of a hundred
# candidates' rates is mostly chance; squared errors vary less. Set on random labels
# (`scripts/everyday.py`).
_TIE_BREAK, FEW_HELD_OUT = 1e-3, 800
# Number of standard errors by which a model must beat a constant on few held-out rows. The key says
# whether targets are classes, whose lowest error rate is more often luck. The second number is the
# fewest rows of this test, because 10 rows show nothing significant. Set by hand.
_STANDARD_ERRORS, MIN_HELD_OUT = {False: 1.5, True: 2.0}, 30
# Ridges that are tried, the smaller one first, if the largest of the compared ones is the best:
# targets are then mostly noise. Each costs a factorisation. Set by hand.
LARGER_RIDGES = (10.0, 100.0)

# A map of standardised rows into a metric: (d,) weights, a (d, r) map, or a map of each column.
Root: TypeAlias = np.ndarray | ColumnMap


class Standardised:
    """Mapped features with mean 0 and variance 1 on the training rows; constant ones become 0.

    Parameters
    ----------
    column_map : Maps rows (n, d) to rows (n, p)
    X : (n, d) array or CSR. Training rows.

    Attributes
    ----------
    mean : (p,) float64
    deviation : (p,) float64. inf for constant features, which the division then makes 0.
    """

    def __init__(self, column_map: ColumnMap, X: Any) -> None:
        self.column_map = column_map
        X = column_map(X)
        eps = float(np.finfo(np.float64).eps)
        # A variance up to `rounding` mean^2 is a rounding error: `eps` for a difference of sums of
        # squares (sparse rows), (n eps)^2 for squares of the mean's error (dense rows).
        rounding = eps
        if sp.issparse(X):
            self.mean = np.asarray(X.mean(axis=0), np.float64).ravel()
            squares = np.asarray(X.multiply(X).mean(axis=0), np.float64).ravel()
            variance = np.maximum(squares - self.mean**2, 0.0)
        else:
            self.mean = X.mean(axis=0, dtype=np.float64)
            variance = X.var(axis=0, dtype=np.float64)
            rounding = min(eps, (len(X) * eps) ** 2)
        constant = variance <= rounding * self.mean**2
        self.deviation = np.where(constant, np.inf, np.sqrt(variance))

    def warped(self, warp: ColumnMap, X: np.ndarray) -> "Standardised":
        """This scaler followed by `warp`, a map of standardised rows; X : (n, p) for training."""
        Z, scaler = warp(X), copy.copy(self)
        scaler.column_map = replace(self.column_map, warp=(self.mean, self.deviation, warp))
        scaler.mean, deviation = Z.mean(axis=0), Z.std(axis=0)
        scaler.deviation = np.where(deviation > 0.0, deviation, np.inf)
        return scaler

    def __call__(self, X: Any) -> np.ndarray:
        X = self.column_map(X)
        rows = X.toarray() if sp.issparse(X) else X
        return (rows - self.mean) / self.deviation


@dataclass(frozen=True)
class RidgeProblem:
    """Standardised training and held-out rows with their targets."""

    scaler: Standardised
    X: np.ndarray  # (n, d)
    Y: np.ndarray  # (n, m)
    held_out_X: np.ndarray  # (v, d)
    held_out_Y: np.ndarray  # (v, m)
    targets: "ScaledTargets"
    laplacian_features: np.ndarray | None  # features that the Laplacian kernel weighs; None: all

    def matrix(
        self, root: Root, kernel: str, width: float, rng: np.random.RandomState
    ) -> tuple[np.ndarray, KernelMatrix, float]:
        """Training rows in a metric, their kernel matrix, and its gamma."""
        Z = apply_root(self.X, root).astype(np.float32)
        gamma = gamma_of_width(kernel, Z, width, rng)
        return Z, KernelMatrix(make_kernel(kernel, Z, gamma=gamma), Z, np.float32), gamma

    def solve(
        self,
        root: Root,
        matrix: KernelMatrix,
        ridges: Sequence[float],
        *,
        try_larger: bool = True,
        rows: np.ndarray | None = None,
    ) -> tuple[float, float, np.ndarray, np.ndarray | None]:
        """Lowest held-out error, its ridge, coefficients (n, m), and the kernel values (a, n) of
        the indices `rows` : (a,) if they were computed for several ridges, else None.

        try_larger : Whether to try `LARGER_RIDGES` if the largest of several ridges is best.
        """
        prepared_rows = matrix.kernel.prepare(
            apply_root(self.held_out_X, root).astype(np.float32), np.dtype(np.float32)
        )
        # Several ridges share the kernel values; one ridge leaves their memory to its factor.
        values = matrix.block(np.arange(len(matrix))) if len(ridges) > 1 else None
        best = self._best(matrix, prepared_rows, ridges, values)
        for ridge in LARGER_RIDGES if try_larger and len(ridges) > 1 else ():
            if best[1] < max(ridges) or ridge <= best[1]:
                continue
            model = self._best(matrix, prepared_rows, (ridge,), values)
            best = min(best, model, key=lambda candidate: candidate[0])
            if best[1] < ridge:
                break
        return *best, None if values is None or rows is None else values[rows]

    def held_out_predictions(
        self, root: Root, kernel: str, gamma: float, ridge: float
    ) -> np.ndarray:
        """A model's predictions at the held-out rows; (v, m). Solves it again, in O(n^3 / 3)."""
        Z = apply_root(self.X, root).astype(np.float32)
        matrix = KernelMatrix(make_kernel(kernel, Z, gamma=gamma), Z, np.float32)
        prepared_rows = matrix.kernel.prepare(
            apply_root(self.held_out_X, root).astype(np.float32), np.dtype(np.float32)
        )
        coef = scipy.linalg.cho_solve(
            shifted_cholesky(matrix, ridge), self.Y.astype(np.float32), check_finite=False
        )
        return expand(matrix.kernel, prepared_rows, matrix.points(slice(None)), coef, np.float32)

    def beats_constant(self, predictions: np.ndarray) -> bool:
        """Whether predictions (v, m) at the held-out rows have lower losses than the mean training
        target, or the most frequent class, by `_STANDARD_ERRORS`."""
        constant = np.repeat(self.Y.mean(axis=0)[None], len(predictions), axis=0)
        model_losses = self.targets.losses(predictions, self.held_out_Y)
        constant_losses = self.targets.losses(constant, self.held_out_Y)
        return exceeds(
            constant_losses, model_losses, _STANDARD_ERRORS[self.targets.is_classification]
        )

    def _best(
        self,
        matrix: KernelMatrix,
        prepared_rows: Any,
        ridges: Sequence[float],
        values: np.ndarray | None,
    ) -> tuple[float, float, np.ndarray]:
        """The lowest held-out error at prepared rows, its ridge and its coefficients."""
        coefs = []
        for ridge in ridges:
            factor = shifted_cholesky(matrix, ridge, values=values)
            coefs.append(
                scipy.linalg.cho_solve(factor, self.Y.astype(np.float32), check_finite=False)
            )
            del factor
        expansions = expand(
            matrix.kernel, prepared_rows, matrix.points(slice(None)), np.hstack(coefs), np.float32
        )
        candidates = [
            (self.targets.error(predictions, self.held_out_Y), ridge, coef)
            for predictions, ridge, coef in zip(
                np.hsplit(expansions, len(ridges)), ridges, coefs, strict=True
            )
        ]
        return min(candidates, key=lambda candidate: candidate[0])


@dataclass(frozen=True)
class ScaledTargets:
    """Targets as columns of unit variance, or classes as columns of -1 and +1."""

    Y: np.ndarray  # (n, m) float64
    is_classification: bool

    @staticmethod
    def of(y: Any, is_classification: bool) -> "ScaledTargets":
        if is_classification:
            labels, index = class_labels.encode(y)
            class_labels.require_two(len(labels))
            return ScaledTargets(class_labels.signs(index, len(labels)), True)
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        deviation = targets.std(axis=0)
        return ScaledTargets(
            (targets - targets.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), False
        )

    def losses(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Squared error of each row, or whether it is in the wrong class; (v,) float64."""
        if not self.is_classification:
            return np.mean((predictions - targets) ** 2, axis=1)
        wrong = class_labels.winners(predictions) != class_labels.winners(targets)
        return wrong.astype(np.float64)

    def error(self, predictions: np.ndarray, targets: np.ndarray) -> float:
        """Held-out error: the mean squared error; for classes the fraction of rows in the wrong
        class plus the mean squared error times `_TIE_BREAK`, or times more with fewer rows than
        `FEW_HELD_OUT`."""
        squared = float(np.mean((predictions - targets) ** 2))
        if not self.is_classification:
            return squared
        wrong = self.losses(predictions, targets).mean()
        factor = max(FEW_HELD_OUT / len(targets), 1.0) ** 2
        return float(wrong) + factor * _TIE_BREAK * squared


def exceeds(larger: np.ndarray, smaller: np.ndarray, standard_errors: float) -> bool:
    """Whether the mean of the losses `larger` : (v,) exceeds that of `smaller`, for the same rows,
    by more than this number of standard errors of their mean difference."""
    gains = larger - smaller
    return bool(gains.mean() > standard_errors * gains.std() / np.sqrt(len(gains)))


def gamma_of_width(kernel: str, Z: np.ndarray, width: float, rng: np.random.RandomState) -> float:
    """1 / w, or 1 / w^2 for the Gaussian kernel, of w = `width` times `_WIDTHS` times the median
    distance between rows."""
    sample = Z[rng.permutation(len(Z))[:_MEDIAN_ROWS]].astype(np.float64)
    distances = pdist(sample, "cityblock" if kernel == "laplacian" else "euclidean")
    median = float(np.median(distances)) if len(sample) > 1 else 1.0
    width *= _WIDTHS[kernel] * (median or 1.0)
    return 1.0 / (width**2 if kernel == "rbf" else width)


def apply_root(X: np.ndarray, root: Root) -> np.ndarray:
    """Rows root' x, or root(x), without the features of weight 0."""
    if isinstance(root, ColumnMap):
        return root(X)[:, is_weighed(root)]
    if root.ndim == 2:
        return matmul(X, root)
    return X * root if root.all() else X[:, root > 0.0] * root[root > 0.0]


def is_weighed(root: Root) -> np.ndarray:
    """Mask of the features that a diagonal or a map of columns does not leave out; (d,)."""
    return (root.values[-1] if isinstance(root, ColumnMap) else root) > 0.0
