"""Random Fourier features of shift-invariant kernels.

Rahimi and Recht, "Random Features for Large-Scale Kernel Machines" (NIPS 2007), Algorithm 1.
With frequencies omega drawn from the kernel's Fourier transform,

    k(x - x') = E cos(<omega, x - x'>) = E 2 cos(<omega, x> + b) cos(<omega, x'> + b),

b uniform in [0, 2 pi], and

    exp(-gamma ||x||^2):    omega ~ N(0, 2 gamma I)
    exp(-gamma ||x||_1):    the entries of omega independently Cauchy(0, gamma)

and so for every kernel that states its `spectrum` (`kbench.kernels.spectrum`).

Orthogonal frequencies (Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, "Orthogonal Random
Features", NIPS 2016) are, d at a time, the rows of S Q with a random orthogonal matrix Q and a
diagonal matrix S of the lengths of independent Gaussian rows. Each frequency is Gaussian, and the
variance of the estimate is lower. For other kernels of the Euclidean distance the lengths are those
of their spectrum.

Quasi-Monte Carlo frequencies (Yang, Sindhwani, Avron and Mahoney, "Quasi-Monte Carlo Feature Maps
for Shift-Invariant Kernels", ICML 2014) are a scrambled Halton sequence through the inverse of the
distribution function: each has the kernel's distribution, and together they fill the space evenly.
The first coordinates of the sequence are the most evenly spread. Isotropic spectra are invariant
under rotations, so they are aligned with the leading principal axes of the rows.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from kbench.approximation.features.feature_map import FeatureMap, is_wide, to_dense
from kbench.approximation.features.turns import SERIES, write_features
from kbench.intrinsics.products import matmul
from kbench.kernels import KERNELS, make_kernel
from kbench.kernels.constraints import kernel_constraints
from kbench.kernels.origin import origin_of
from kbench.kernels.registry import kernel_names
from kbench.kernels.spectrum import IsotropicSpectrum, Spectrum
from kbench.prediction.flops import TRANSCENDENTAL
from kbench.stored import MAX_FEATURES, check_arrays, check_number, check_whole, require
from kbench.validated import POSITIVE, choice, usual

# Largest number of rows from which the principal axes are computed: O(rows d^2) time, against the
# accuracy of the axes. Set by hand.
_AXES_ROWS = 10_000
# Guard: frequencies between these two, in radians per unit of a feature, and their products with
# features stay in float32's range. Other frequencies need rows in another unit.
_FREQUENCY_RANGE = (1e-10, 1e10)
# Guard: entries up to this size times such frequencies, summed over a million features, stay in
# that range.
_LARGE_ENTRY = 1e18
# Largest angle, in radians, of the mean row along an axis. Beyond it float32 angles of rows lose
# more than ten of their 24 bits, and the mean is subtracted first. Set by hand.
_MAX_ANGLE = 1024.0


class FourierFeatures(FeatureMap):
    """Base class of the maps to cosines of random projections, dense or structured.

    `form="phase"`: sqrt(2 / D) cos(omega x + b), D = n_components frequencies.
    `form="cos_sin"`: sqrt(1 / D) [cos(omega x), sin(omega x)], D = n_components / 2, rounded up.

    The kernel depends on differences of rows only. Rows that are far from the origin for the kernel
    are centred before they are rounded to float32, and features so small or large that float32
    cannot hold frequencies are taken in another unit, a power of two.
    """

    # `_centre` : (d,) float64 is subtracted from rows, which are then multiplied by `_unit`.
    _centre: np.ndarray | None = None
    _unit: float = 1.0

    _parameter_constraints: ClassVar[dict] = {
        "gamma": [choice("scale", "auto"), POSITIVE],
        "form": [choice("phase", "cos_sin")],
        **usual("n_components", "random_state"),
    }

    # The kernel that is approximated; a parameter of `RandomFourierFeatures`.
    kernel = "rbf"

    def _fit(self, X: Any, rng: np.random.RandomState) -> None:
        """Set `_centre` and `_unit`, which `_centre_and_scale` uses, then draw the frequencies.

        `_unit` is the factor of the rows, by which frequencies are divided: the power of two next
        to a typical frequency if that is outside `_FREQUENCY_RANGE`, else 1. `_centre` is the mean
        row if its angles would exceed `_MAX_ANGLE`, else None.
        """
        self.kernel_ = make_kernel(self.kernel, X, gamma=self.gamma)
        has_sines = self.form == "cos_sin"
        self.n_frequencies_ = (self.n_components + 1) // 2 if has_sines else self.n_components
        self.n_features_out_ = 2 * self.n_frequencies_ if has_sines else self.n_frequencies_
        gamma: float = self.kernel_.gamma  # type: ignore[attr-defined]
        # Size of the frequencies at this gamma, in radians per unit of a feature. If float32 cannot
        # hold it, rows are multiplied by the nearest power of two, and frequencies divided by it.
        typical_frequency = self._spectrum.unit(gamma)
        low, high = _FREQUENCY_RANGE
        self._unit = (
            1.0
            if low <= typical_frequency <= high
            else float(2.0 ** np.rint(np.log2(typical_frequency)))
        )
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        origin = mean if sp.issparse(X) else origin_of(X, mean)
        self._centre = origin if np.abs(origin).max() * typical_frequency > _MAX_ANGLE else None
        self._draw(X, gamma, rng)
        n_phases = 0 if has_sines else self.n_frequencies_
        self.phases_ = rng.uniform(0.0, 2.0 * np.pi, n_phases)

    @property
    def _spectrum(self) -> Spectrum:
        spectrum = KERNELS[self.kernel].spectrum
        assert spectrum is not None
        return spectrum

    @abstractmethod
    def _draw(self, X: Any, gamma: float, rng: np.random.RandomState) -> None:
        """Draw `n_frequencies_` frequencies for rows like X : (n, d)."""

    @abstractmethod
    def _projector(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        """A function that writes X Omega' / (2 pi), angles in turns, into its second argument."""

    def _filler(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        project, D = self._projector(dtype), self.n_frequencies_
        phases = (self.phases_ / (2.0 * np.pi)).astype(dtype)
        scale = dtype.type(np.sqrt((2.0 if len(phases) else 1.0) / D))

        def fill(X: Any, out: np.ndarray) -> None:
            angles = out[:, :D]
            project(self._centre_and_scale(X), angles)
            if max(X.max(), -X.min()) > _LARGE_ENTRY and not np.isfinite(angles).all():
                raise ValueError(f"Input X contains a value too large for dtype({str(dtype)!r})")
            write_features(out, phases, scale, SERIES[dtype])

        return fill

    def _centre_and_scale(self, X: Any) -> Any:
        """Subtract `_centre` from rows X and multiply by `_unit`, which divides the frequencies."""
        if self._centre is None and self._unit == 1.0:
            return X
        if is_wide(X) and self._centre is None:
            return X.astype(np.float64) * self._unit
        X = to_dense(X, np.dtype(np.float64))
        return (X if self._centre is None else X - self._centre) * self._unit

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        d = check_whole(self, "n_features_in_", 1, MAX_FEATURES)
        n_frequencies = check_whole(self, "n_frequencies_", 1, MAX_FEATURES)
        n_phases = check_arrays(self, phases_="f8 n")["n"]
        require(
            n_phases in (0, n_frequencies),
            f"there are {n_phases} phases for {n_frequencies} frequencies",
        )
        n_outputs = n_frequencies if n_phases else 2 * n_frequencies
        check_whole(self, "n_features_out_", n_outputs, n_outputs)
        check_arrays(self, _centre=f"?f8 {d}")
        require(check_number(self, "_unit") > 0.0, "_unit should be positive")


def require_isotropic(kernel: str) -> None:
    """Raise a ValueError if the kernel's spectrum has no orthogonal frequencies."""
    isotropic_kernels = [
        name
        for name in kernel_names("spectrum")
        if isinstance(KERNELS[name].spectrum, IsotropicSpectrum)
    ]
    if kernel not in isotropic_kernels:
        raise ValueError(
            f"sampling='orthogonal' is for kernels with an isotropic spectrum "
            f"({', '.join(isotropic_kernels)}), found {kernel!r}; use 'quasi'"
        )


@dataclass(eq=False, repr=False)
class RandomFourierFeatures(FourierFeatures):
    """Features whose inner products are unbiased estimates of a shift-invariant kernel.

    Parameters
    ----------
    n_components : int, default=100
        Number of features, rounded up to even if form="cos_sin". The default is scikit-learn's.
    kernel : str, default="rbf"
        A kernel of `kbench.kernels.KERNELS` that has a spectrum.
    gamma : float or {"scale", "auto"}, default="scale"
    form : {"phase", "cos_sin"}, default="phase"
        A random phase for each cosine, or a cosine and a sine for each frequency: half as many
        frequencies, and a lower variance for the Gaussian kernel.
    sampling : {"independent", "orthogonal", "quasi"}, default="independent"
        How the frequencies are drawn; "orthogonal" is for kernels with an isotropic spectrum only,
        which are functions of the Euclidean distance.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    frequencies_ : (d, D) float64
    phases_ : (D,) float64, or empty
    random_weights_, random_offset_
        `frequencies_` and `phases_`, as `sklearn.kernel_approximation.RBFSampler` names them, which
        has the same ones for the same seed, kernel="rbf", form="phase" and sampling="independent".
    n_frequencies_ : int
        D
    n_features_out_, nbytes_, n_parameters_
        As in `FeatureMap`.

    Notes
    -----
    The error of a kernel value is O(1 / sqrt(D)). Transforming costs O(D d) a row; fitting costs
    O(D d), and O(D d^2) more for orthogonal frequencies, O(min(n, 10,000) d^2 + d^3 + D d^2) for
    "quasi".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from kbench.approximation import RandomFourierFeatures
    >>> X, _ = load_iris(return_X_y=True)
    >>> Z = RandomFourierFeatures(4000, gamma=0.5, random_state=0).fit_transform(X)
    >>> float(abs(Z @ Z.T - rbf_kernel(X, gamma=0.5)).max()) < 0.1
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **FourierFeatures._parameter_constraints,
        **kernel_constraints("spectrum"),
        "sampling": [choice("independent", "orthogonal", "quasi")],
    }

    n_components: int = 100
    _: KW_ONLY
    kernel: str = "rbf"
    gamma: float | str = "scale"
    form: str = "phase"
    sampling: str = "independent"
    random_state: Any = None

    @property
    def random_weights_(self) -> np.ndarray:
        return self.frequencies_

    @property
    def random_offset_(self) -> np.ndarray:
        return self.phases_

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.sampling == "orthogonal":
            require_isotropic(self.kernel)

    def _draw(self, X: Any, gamma: float, rng: np.random.RandomState) -> None:
        spectrum, d, D = self._spectrum, X.shape[1], self.n_frequencies_
        if self.sampling == "orthogonal":
            assert isinstance(spectrum, IsotropicSpectrum)
            unit_frequencies = spectrum.lengthened(_orthogonal_normals((d, D), rng), rng)
        elif self.sampling == "quasi":
            unit_frequencies = spectrum.quantiles(_halton((spectrum.n_levels(d), D), rng))
            if spectrum.isotropic:
                unit_frequencies = matmul(_principal_axes(X, rng), unit_frequencies)
        else:
            unit_frequencies = spectrum.draw((d, D), rng)
        self.frequencies_ = spectrum.unit(gamma) * unit_frequencies

    def flops(self, n_features: int) -> float:
        return self.n_frequencies_ + TRANSCENDENTAL * self.n_features_out_ / n_features

    @property
    def nbytes_(self) -> int:
        return self.frequencies_.nbytes + self.phases_.nbytes

    @property
    def n_parameters_(self) -> int:
        return self.frequencies_.size + self.phases_.size

    def _projector(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        frequencies = (self.frequencies_ / self._unit / (2.0 * np.pi)).astype(dtype)

        def project(X: Any, out: np.ndarray) -> None:
            if is_wide(X):
                out[...] = matmul(X.astype(dtype, copy=False), frequencies)
            else:
                matmul(to_dense(X, dtype), frequencies, out=out)

        return project

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        check_arrays(self, frequencies_=f"f8 {self.n_features_in_} {self.n_frequencies_}")


def _orthogonal_normals(shape: tuple[int, int], rng: np.random.RandomState) -> np.ndarray:
    """(d, D) whose columns are standard normal, and orthogonal d at a time. O(D d^2)."""
    d, D = shape
    out = np.empty(shape)
    for start in range(0, D, d):
        block = out[:, start : start + d]
        block[:] = np.linalg.qr(rng.standard_normal((d, d)))[0][:, : block.shape[1]]
    return out * np.sqrt(rng.chisquare(d, D))


def _halton(shape: tuple[int, int], rng: np.random.RandomState) -> np.ndarray:
    """(d, D): D points of a scrambled Halton sequence in (0, 1)^d, as columns."""
    from scipy.stats import qmc  # imported here, because it takes 0.5 s and few fits need it

    d, D = shape
    return qmc.Halton(d, seed=np.random.default_rng(rng.randint(2**31))).random(D).T


def _principal_axes(X: Any, rng: np.random.RandomState) -> np.ndarray:
    """(d, d) whose columns are the principal axes of up to 10,000 rows, by descending variance."""
    n = X.shape[0]
    sample = to_dense(X[rng.choice(n, min(n, _AXES_ROWS), replace=False)], np.dtype(np.float64))
    centred = sample - sample.mean(axis=0)
    return scipy.linalg.eigh(matmul(centred.T, centred))[1][:, ::-1]
