"""Fastfood: random Fourier features of the Gaussian kernel in O(D log d) a row.

Le, Sarlos and Smola, "Fastfood - Computing Hilbert Space Expansions in Loglinear Time" (ICML 2013).
Rows are padded to d' = 2^q features. A block of d' frequencies is

    V = 1 / (sigma sqrt(d')) S H G P H B,    sigma = 1 / sqrt(2 gamma)

where B holds random signs, P is a random permutation, G is standard normal, H is the Walsh-Hadamard
matrix, and S gives the rows the norms of Gaussian frequencies: S_ii = s_i / ||G||_F, s_i ~ chi(d').
(The paper prints ||G||_F^(-1/2); rows of H G P H B have norm sqrt(d') ||G||_F.) Blocks are stacked
until there are D frequencies.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numba import njit

from kbench.approximation.features.feature_map import to_dense
from kbench.approximation.features.fourier import FourierFeatures
from kbench.approximation.features.hadamard import transform_row
from kbench.prediction.flops import TRANSCENDENTAL
from kbench.prediction.landmark_layout import read_only
from kbench.stored import check_arrays, check_indices, require


@dataclass(eq=False, repr=False)
class Fastfood(FourierFeatures):
    """Features whose inner products estimate the Gaussian kernel, from O(D) stored numbers.

    Parameters
    ----------
    n_components : int, default=100
        Number of features, rounded up to even if form="cos_sin". The default is scikit-learn's.
    gamma : float or {"scale", "auto"}, default="scale"
    form : {"phase", "cos_sin"}, default="phase"
        As in `RandomFourierFeatures`.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    signs_, gaussians_, scales_ : (blocks, d') float64
        Diagonals of B, G and S / (sigma sqrt(d')).
    permutations_ : (blocks, d') int32
    phases_ : (D,) float64, or empty
    n_frequencies_ : int
        D
    n_features_out_, nbytes_, n_parameters_
        As in `FeatureMap`.

    Notes
    -----
    Transforming a row costs O(D log d'), less than with dense frequencies if there are more than a
    few hundred features (`scripts/bench_approximation.py`). The mean of a kernel value over seeds
    is exact; the error for one seed is O(1 / sqrt(D)).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from kbench.approximation import Fastfood
    >>> X = load_digits().data[:200] / 16
    >>> Z = Fastfood(4096, gamma=0.1, random_state=0).fit_transform(X)
    >>> float(abs(Z @ Z.T - rbf_kernel(X, gamma=0.1)).max()) < 0.1
    True
    """

    n_components: int = 100
    _: KW_ONLY
    gamma: float | str = "scale"
    form: str = "phase"
    random_state: Any = None

    def _draw(self, X: Any, gamma: float, rng: np.random.RandomState) -> None:
        length = 1 << (X.shape[1] - 1).bit_length()
        shape = (-(-self.n_frequencies_ // length), length)
        self.signs_ = rng.choice([-1.0, 1.0], shape)
        self.permutations_ = np.array([rng.permutation(length) for _ in range(shape[0])], np.int32)
        self.gaussians_ = rng.standard_normal(shape)
        norms = np.linalg.norm(self.gaussians_, axis=1, keepdims=True)
        chi = np.sqrt(rng.chisquare(length, shape))
        self.scales_ = chi / norms * np.sqrt(2.0 * gamma / length)

    def flops(self, n_features: int) -> float:
        n_blocks, length = self.signs_.shape
        transforms = n_blocks * 2 * length * np.log2(length)
        return float(transforms + TRANSCENDENTAL * self.n_features_out_) / n_features

    @property
    def nbytes_(self) -> int:
        diagonals = self.signs_.nbytes + self.gaussians_.nbytes + self.scales_.nbytes
        return diagonals + self.permutations_.nbytes + self.phases_.nbytes

    @property
    def n_parameters_(self) -> int:
        return 4 * self.signs_.size + self.phases_.size

    def _projector(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        signs, gaussians, scales, permutations = map(
            read_only,
            (
                self.signs_.astype(dtype),
                self.gaussians_.astype(dtype),
                # The unit is turns, as `kbench.approximation.features.turns` takes angles.
                (self.scales_ / self._unit / (2.0 * np.pi)).astype(dtype),
                self.permutations_,
            ),
        )

        def project(X: Any, out: np.ndarray) -> None:
            _project(read_only(to_dense(X, dtype)), signs, gaussians, scales, permutations, out)

        return project

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        lengths = check_arrays(
            self, signs_="f8 b l", gaussians_="f8 b l", scales_="f8 b l", permutations_="i4 b l"
        )
        n_blocks, length = lengths["b"], lengths["l"]
        require(
            length > 0 and length & (length - 1) == 0,
            "the length of a block should be a power of two",
        )
        require(self.n_features_in_ <= length, "rows are longer than a block")
        require(n_blocks == -(-self.n_frequencies_ // length), "wrong number of blocks")
        check_indices(self.permutations_, length, "permutations_")


@njit(cache=True, fastmath={"contract", "nsz"})
def _project(X, signs, gaussians, scales, permutations, out):
    """out : (u, D) = rows of X : (u, d) times V'."""
    blocks, length = signs.shape
    d, D = X.shape[1], out.shape[1]
    transformed = np.empty(length, X.dtype)
    mixed = np.empty(length, X.dtype)
    for i in range(X.shape[0]):
        for block in range(blocks):
            for j in range(d):
                transformed[j] = signs[block, j] * X[i, j]
            for j in range(d, length):
                transformed[j] = 0
            transform_row(transformed)
            for j in range(length):
                mixed[j] = gaussians[block, j] * transformed[permutations[block, j]]
            transform_row(mixed)
            width = min(length, D - block * length)
            row = out[i, block * length : block * length + width]
            for j in range(width):
                row[j] = scales[block, j] * mixed[j]
