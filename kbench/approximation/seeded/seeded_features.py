"""Random features in blocks that are not stored: each is drawn again from its seed when needed.

Dai, Xie, He, Liang, Raj, Balcan and Song, "Scalable Kernel Methods via Doubly Stochastic Gradients"
(NIPS 2014), section 3. Block t has features Phi_t(x) with

    E Phi_t(x)' Phi_t(z) = k(x, z),

for every t, and therefore for the mean over any number of blocks. A block is a function of (seed,
t) alone, by counter-based random numbers (`philox`), so blocks can be drawn in any order and need
no storage. Fourier blocks are cosines and sines of r frequencies over sqrt(r), after Bochner's
theorem:

    rbf        exp(-gamma ||x - z||^2)      omega ~ N(0, 2 gamma I)
    laplacian  exp(-gamma ||x - z||_1)      entries of omega independently Cauchy(0, gamma)
    matern     with length scale l,         omega ~ multivariate t of 2 nu degrees of freedom,
               gamma = 1 / (2 l^2)          scale 1 / l; rbf is its limit for large nu
    others     functions of the Euclidean   omega Gaussian with random lengths
               distance with a spectrum     (`kbench.kernels.spectrum`)
    poly       (gamma <x, z> + coef0)^p     TensorSketch (Pham and Pagh, KDD 2013)
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse as sp

from kbench.approximation.seeded import philox
from kbench.intrinsics.products import matmul
from kbench.kernels import KERNELS
from kbench.kernels.spectrum import IsotropicSpectrum
from kbench.prediction.flops import TRANSCENDENTAL

# Features (float32 numbers) per tile of rows: 2 MiB stay in the L2 cache until they are used. Set
# by hand.
_TILE_VALUES = 1 << 19
# Least number of rows of a tile: fewer make matrix products inefficient. Set by hand.
_MIN_TILE_ROWS = 64
# Philox streams of signs and radii; frequencies and hashes have the streams 0, 1, ...
_SIGN_STREAM, _RADIUS_STREAM = 1 << 16, 1 << 17
# Largest float32 below 1: radii at a level of 1 would be infinite.
_MAX_LEVEL = 1.0 - 2.0**-24


class SeededFeatures(ABC):
    """Blocks of random features of one kernel; a subclass defines `_draw` and `_write`.

    Parameters
    ----------
    d : Features of the data
    n_features : Random features of a block; Fourier blocks round it up to an even number
    seed : Integer of 64 bits, without sign
    cache_mb : MiB of drawn blocks (4 d r bytes each) in a least-recently-used cache

    Attributes
    ----------
    n_drawn : int. Blocks drawn so far, with repetitions.
    n_features_computed : int. Feature values computed so far.
    """

    @property
    def _key(self) -> np.uint64:
        """The seed in the type that compiled code takes for 64 unsigned bits."""
        return np.uint64(self.seed)

    def __init__(
        self, d: int, n_features: int, seed: int, gamma: float, *, cache_mb: float = 0.0
    ) -> None:
        self.d, self.n_features, self.seed, self.gamma = d, n_features, seed, gamma
        self.cache_mb = cache_mb
        self.n_drawn = self.n_features_computed = 0
        self._cache: dict[int, np.ndarray] = {}  # in order of use, least recently used first

    @abstractmethod
    def _draw(self, block: int) -> Any:
        """The random numbers of a block: a dense array or a CSR matrix."""

    @abstractmethod
    def _write(self, numbers: Any, X: Any, out: np.ndarray) -> None:
        """Write features of rows X : (u, d) into out : (u, n_features)."""

    @property
    @abstractmethod
    def multiplications(self) -> float:
        """Multiplications for a row's features in a block; a cosine or sine counts as ten."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": {}}

    def drawn(self, block: int) -> Any:
        """The result of `_draw`, from the cache if possible."""
        if block in self._cache:
            self._cache[block] = self._cache.pop(block)
            return self._cache[block]
        numbers = self._draw(block)
        self.n_drawn += 1
        arrays = [numbers.data, numbers.indices] if sp.issparse(numbers) else [numbers]
        max_cached_blocks = int(self.cache_mb * 2**20) // max(
            1, sum(array.nbytes for array in arrays)
        )
        if max_cached_blocks:
            while len(self._cache) >= max_cached_blocks:
                del self._cache[next(iter(self._cache))]
            self._cache[block] = numbers
        return numbers

    def fill(self, block: int, X: Any, out: np.ndarray) -> None:
        """Write Phi_block(X) into out : (u, n_features) float32, C-contiguous.

        X : (u, d) float32 array or CSR. O(u d r) time.
        """
        self._write(self.drawn(block), X, out)
        self.n_features_computed += out.size

    @property
    def tile_rows(self) -> int:
        """Rows of a tile, whose features fit into the L2 cache."""
        return max(_MIN_TILE_ROWS, _TILE_VALUES // self.n_features)

    def add(self, block: int, X: Any, coef: np.ndarray, values: np.ndarray) -> None:
        """values += Phi_block(X) coef, without storing the features.

        Parameters
        ----------
        X : (u, d) float32 array or CSR
        coef : (n_features, q) float32
        values : (u, q) float64
        """
        step = min(self.tile_rows, X.shape[0])
        tile = np.empty((step, self.n_features), np.float32)
        numbers = self.drawn(block)
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            tile_X = X[rows]
            features = tile[: tile_X.shape[0]]
            self._write(numbers, tile_X, features)
            values[rows] += matmul(features, coef)
        self.n_features_computed += X.shape[0] * self.n_features


class _FourierBlocks(SeededFeatures):
    """Cosines and sines of random projections; a subclass defines `_frequencies`."""

    def __init__(
        self, d: int, n_features: int, seed: int, gamma: float, *, cache_mb: float = 0.0
    ) -> None:
        super().__init__(d, n_features + n_features % 2, seed, gamma, cache_mb=cache_mb)

    @property
    def multiplications(self) -> float:
        return self.n_features * (self.d / 2 + TRANSCENDENTAL)

    @abstractmethod
    def _frequencies(self, block: int, out: np.ndarray) -> float:
        """Fill out : (d, r) with frequencies and return the factor to multiply them with."""

    def _draw(self, block: int) -> np.ndarray:
        frequencies = np.empty((self.d, self.n_features // 2), np.float32)
        frequencies *= np.float32(
            self._frequencies(block, frequencies) / (2.0 * np.pi)
        )  # angles in turns
        return frequencies

    def _write(self, frequencies: np.ndarray, X: Any, out: np.ndarray) -> None:
        r = frequencies.shape[1]
        if sp.issparse(X):
            out[:, :r] = matmul(X, frequencies)
        else:
            matmul(X, frequencies, out=out[:, :r])
        philox.cosines_and_sines(out, np.float32(1.0 / np.sqrt(r)))


class GaussianBlocks(_FourierBlocks):
    """Features of exp(-gamma ||x - z||^2)."""

    def _frequencies(self, block: int, out: np.ndarray) -> float:
        philox.normals(self._key, 0, block, out.reshape(-1))
        return float(np.sqrt(2.0 * self.gamma))


class LaplacianBlocks(_FourierBlocks):
    """Features of exp(-gamma ||x - z||_1)."""

    def _frequencies(self, block: int, out: np.ndarray) -> float:
        philox.uniforms(self._key, 0, block, out.reshape(-1))
        np.tan(np.float32(np.pi) * (out - np.float32(0.5)), out=out)
        return self.gamma


class MaternBlocks(_FourierBlocks):
    """Features of the Matern kernel with length scale 1 / sqrt(2 gamma).

    Parameters
    ----------
    smoothness : nu; 2 nu is an integer. The default is that of scikit-learn's `Matern`.
    """

    def __init__(
        self,
        d: int,
        n_features: int,
        seed: int,
        gamma: float,
        *,
        smoothness: float = 1.5,
        cache_mb: float = 0.0,
    ) -> None:
        if 2 * smoothness != int(2 * smoothness) or smoothness <= 0:
            raise ValueError(f"smoothness is {smoothness:g}, should be a positive multiple of 1/2")
        super().__init__(d, n_features, seed, gamma, cache_mb=cache_mb)
        self.smoothness = smoothness

    def _frequencies(self, block: int, out: np.ndarray) -> float:
        philox.normals(self._key, 0, block, out.reshape(-1))
        degrees_of_freedom = int(2 * self.smoothness)
        # A chi-squared variable with k degrees of freedom is a sum of k squared normals.
        chi_normals = np.empty((degrees_of_freedom, out.shape[1]), np.float32)
        philox.normals(self._key, _RADIUS_STREAM, block, chi_normals.reshape(-1))
        out *= np.sqrt(degrees_of_freedom / np.einsum("ij,ij->j", chi_normals, chi_normals))
        return float(np.sqrt(2.0 * self.gamma))


class SpectrumBlocks(_FourierBlocks):
    """Features of any kernel of the Euclidean distance whose spectrum is known.

    Parameters
    ----------
    kernel : Name of a kernel with an `IsotropicSpectrum`
    """

    def __init__(
        self,
        d: int,
        n_features: int,
        seed: int,
        gamma: float,
        *,
        kernel: str,
        cache_mb: float = 0.0,
    ) -> None:
        super().__init__(d, n_features, seed, gamma, cache_mb=cache_mb)
        self.kernel = kernel

    def _frequencies(self, block: int, out: np.ndarray) -> float:
        philox.normals(self._key, 0, block, out.reshape(-1))
        spectrum = KERNELS[self.kernel].spectrum
        assert isinstance(spectrum, IsotropicSpectrum)
        if spectrum.radius is not None:
            levels = np.empty(out.shape[1], np.float32)
            philox.uniforms(self._key, _RADIUS_STREAM, block, levels)
            out *= spectrum.radius(np.minimum(levels.astype(np.float64), _MAX_LEVEL))
        return spectrum.unit(self.gamma)


class TensorSketchBlocks(SeededFeatures):
    """Features of (gamma <x, z> + coef0)^degree: products of count sketches in the Fourier domain.

    Parameters
    ----------
    degree : p. The default is that of scikit-learn's `SVC`.
    coef0 : Not negative
    """

    def __init__(
        self,
        d: int,
        n_features: int,
        seed: int,
        gamma: float,
        *,
        degree: int = 3,
        coef0: float = 0.0,
        cache_mb: float = 0.0,
    ) -> None:
        if coef0 < 0:
            raise ValueError(
                f"coef0 is {coef0:g}, should not be negative: the polynomial would not be a kernel"
            )
        super().__init__(d, n_features, seed, gamma, cache_mb=cache_mb)
        self.degree, self.coef0 = degree, coef0

    @property
    def multiplications(self) -> float:
        # p sketches and p + 1 real Fourier transforms, which take 5/2 D log2 D each
        transform_cost = 2.5 * self.n_features * math.log2(max(self.n_features, 2))
        return self.degree * (self.d + self.n_features) + (self.degree + 1) * transform_cost

    def _draw(self, block: int) -> sp.csr_array:
        # The p sketches stand side by side; the last row is for the constant feature sqrt(coef0).
        d, D = self.d + 1, self.n_features
        bucket_levels, sign_levels = np.empty(d, np.float32), np.empty(d, np.float32)
        sketches = []
        for factor in range(self.degree):
            philox.uniforms(self._key, factor, block, bucket_levels)
            philox.uniforms(self._key, _SIGN_STREAM + factor, block, sign_levels)
            buckets = np.minimum((bucket_levels * D).astype(np.intp), D - 1)
            signed_weights = np.where(sign_levels < 0.5, -1.0, 1.0) * np.sqrt(self.gamma)
            signed_weights[-1] *= np.sqrt(self.coef0 / self.gamma)
            shape = (d, D)
            sketches.append(
                sp.csr_array(
                    (signed_weights.astype(np.float32), (np.arange(d), buckets)), shape=shape
                )
            )
        return sp.csr_array(sp.hstack(sketches))

    def _write(self, hashes: sp.csr_array, X: Any, out: np.ndarray) -> None:
        feature_hashes = hashes[:-1]
        sketches = (
            matmul(X, feature_hashes).toarray() if sp.issparse(X) else matmul(X, feature_hashes)
        )
        sketches += hashes[[-1]].toarray()
        transforms = scipy.fft.rfft(sketches.reshape(len(out), self.degree, -1), axis=2)
        out[:] = scipy.fft.irfft(transforms.prod(axis=1), n=self.n_features, axis=1)
