"""Random features of a given rank: the form in which approximations are compared.

Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation" (JMLR 18, 2017), compare methods at
equal rank k, where random features count a cosine and a sine of one frequency as one column: 2 k
real features.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.approximation.features.fastfood import Fastfood
from kbench.approximation.features.feature_map import FeatureMap
from kbench.approximation.features.fourier import (
    FourierFeatures,
    RandomFourierFeatures,
    require_isotropic,
)
from kbench.approximation.features.stored_numbers import CONSTRAINTS, chosen_rank, require_one
from kbench.validated import choice


@dataclass(eq=False, repr=False)
class RandomFeatures(FeatureMap):
    """Random Fourier features, dense or structured, by rank.

    Parameters
    ----------
    rank : int or None, default=128
        Half the number of features, set by hand. None: `numbers_per_row` sets it.
    numbers_per_row : float or None, default=None
        Numbers that the features of the n training rows keep, divided by n: the number of
        features. With rank=None it sets the rank, so that approximations can be compared at equal
        memory.
    features : {"fourier", "orthogonal", "quasi", "fastfood"}, default="fourier"
        Independent, orthogonal or quasi-Monte Carlo frequencies of `RandomFourierFeatures`, or the
        structured frequencies of `Fastfood`.
    kernel : str, default="rbf"
        A kernel of `kbench.kernels.KERNELS` that has a spectrum: features="orthogonal" needs an
        isotropic spectrum, and "fastfood" needs "rbf".
    gamma : float or {"scale", "auto"}, default="scale"
    form : {"cos_sin", "phase"}, default="cos_sin"
        A cosine and a sine for each of `rank` frequencies, or one cosine with a random phase for
        each of 2 `rank` frequencies.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    feature_map_ : RandomFourierFeatures or Fastfood, fitted
    kernel_, n_features_out_, nbytes_, n_parameters_
        As in `FeatureMap`.

    Notes
    -----
    Transforming a row with D features costs O(D d), with "fastfood" O(D log d).
    """

    _parameter_constraints: ClassVar[dict] = {
        **{
            name: RandomFourierFeatures._parameter_constraints[name]
            for name in ("kernel", "gamma", "form", "random_state")
        },
        **CONSTRAINTS,
        "features": [choice("fourier", "orthogonal", "quasi", "fastfood")],
    }

    rank: int | None = 128
    _: KW_ONLY
    numbers_per_row: float | None = None
    features: str = "fourier"
    kernel: str = "rbf"
    gamma: float | str = "scale"
    form: str = "cos_sin"
    random_state: Any = None

    def _validate_params(self) -> None:
        super()._validate_params()
        require_one(self.rank, self.numbers_per_row)
        if self.features == "fastfood" and self.kernel != "rbf":
            raise ValueError(
                f"features={self.features!r} approximates kernel='rbf' only, got "
                f"kernel={self.kernel!r}; use features='fourier'"
            )
        if self.features == "orthogonal":
            require_isotropic(self.kernel)

    def _fit(self, X: Any, rng: np.random.RandomState) -> None:
        n = X.shape[0]
        rank = chosen_rank(self.rank, self.numbers_per_row, n, lambda rank: 2 * rank * n)
        options: dict[str, Any] = {
            "n_components": 2 * rank,
            "gamma": self.gamma,
            "form": self.form,
            "random_state": rng.randint(2**31),
        }
        self.feature_map_: FourierFeatures
        if self.features == "fastfood":
            self.feature_map_ = Fastfood(**options)
        else:
            sampling = "independent" if self.features == "fourier" else self.features
            self.feature_map_ = RandomFourierFeatures(
                kernel=self.kernel, sampling=sampling, **options
            )
        self.feature_map_.fit(X)
        self.kernel_ = self.feature_map_.kernel_
        self.n_features_out_ = self.feature_map_.n_features_out_

    @property
    def nbytes_(self) -> int:
        return self.feature_map_.nbytes_

    @property
    def n_parameters_(self) -> int:
        return self.feature_map_.n_parameters_

    def flops(self, n_features: int) -> float:
        return self.feature_map_.flops(n_features)

    def _filler(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        return self.feature_map_._filler(dtype)
