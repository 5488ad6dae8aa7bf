"""Synthetic data sets of any size, which are generated in blocks.

Random numbers are made from the raw output of Philox, whose stream NumPy guarantees not to change.
Its key is (seed, purpose, block of 4,096 rows), so that row i of a data set depends only on seed, d
and noise, and not on the number of rows or the size of chunks.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from numbers import Integral
from typing import ClassVar

import numpy as np

from kbench.errors import ConfigError
from kbench.mistyped import nearest

BLOCK = 4096  # rows per random stream; set by hand; another value gives other data sets
_PURPOSES = {"function": 0, "train": 1, "test": 2, "middle": 3}


class _RandomStream:
    """Uniform numbers in (0, 1), and normal ones, from one stream of Philox."""

    def __init__(self, seed: int, purpose: str, block: int = 0) -> None:
        sequence = np.random.SeedSequence([seed, _PURPOSES[purpose], block])
        self._bits = np.random.Philox(sequence)

    def uniform(self, *shape: int) -> np.ndarray:
        raw = self._bits.random_raw(int(np.prod(shape))) >> np.uint64(11)  # float64 holds 53 bits
        return ((raw.astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

    def normal(self, *shape: int) -> np.ndarray:
        """Standard normal numbers by the Box-Muller transform."""
        u, v = self.uniform(2, *shape)
        return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)


@dataclass(frozen=True)
class Generator(ABC):
    """A distribution of rows (x, y)."""

    d: int  # Number of features
    seed: int
    noise: float  # Probability of a flipped label, or standard deviation of a regression's noise

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Raise it when a change gives other rows for the same parameters."""

    def fingerprint(self, n: int, n_test: int) -> str:
        """A sha256 of everything that determines the rows, in place of the sha256 of a raw file."""
        description = asdict(self) | {"generator": self.name, "version": self.version}
        description |= {"n": n, "n_test": n_test}
        description["noise"] = float(self.noise)
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()

    def chunks(
        self, part: str, n: int, chunk: int = BLOCK
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The first n rows of `part` ("train" or "test"), in chunks of at most `chunk` rows.

        Yields
        ------
        X : ndarray of float32, shape (rows, d)
        y : ndarray of float64, shape (rows,)
        """
        for block in range(-(-n // BLOCK)):
            X, y = self._block(_RandomStream(self.seed, part, block))
            stop = min(n - block * BLOCK, BLOCK)
            for start in range(0, stop, chunk):
                rows = slice(start, min(start + chunk, stop))
                yield X[rows], y[rows]

    @abstractmethod
    def _block(self, random: _RandomStream) -> tuple[np.ndarray, np.ndarray]:
        """BLOCK rows from one random stream."""


@dataclass(frozen=True)
class CovtypeLike(Generator):
    """Rows like Covertype's (54 columns), with about as many labels -1 as +1.

    A row has three hidden coordinates, its place. 10/54 of the d columns are quantities in [0, 1],
    smooth functions of the place such as elevation and slope. The other columns are two one-hot
    groups, "area" and "soil", in the ratio 4 : 40, which also depend on the place. The label is the
    sign of a sum of random cosines of the place plus an offset for the soil, and is flipped with
    probability `noise`. An RBF kernel can learn the label, but a linear model hardly can. The
    numbers in the formulas are set by hand, and a change of one needs another `version`.
    """

    name = "covtype_like"

    def __post_init__(self) -> None:
        if self.d < 6:
            raise ConfigError(f"dataset.d is {self.d}, covtype_like needs at least 6 columns")
        if self.noise > 0.5:
            raise ConfigError(
                f"dataset.noise is {self.noise}, should be at most 0.5: it is the "
                "fraction of flipped labels"
            )

    @property
    def _widths(self) -> tuple[int, int, int]:
        """Numbers of columns for quantities, areas and soils."""
        n_quantities = max(2, round(self.d * 10 / 54))
        n_areas = max(2, round(self.d * 4 / 54))
        return n_quantities, n_areas, self.d - n_quantities - n_areas

    @cached_property
    def _coefficients(self) -> dict[str, np.ndarray]:
        """The coefficients of the formulas, the same for all rows of a seed."""
        function = _RandomStream(self.seed, "function")
        n_quantities, n_areas, n_soils = self._widths
        return {
            "slopes": function.normal(3, n_quantities) * 1.5,
            "shifts": function.uniform(n_quantities) * 2.0 * np.pi,
            "areas": function.normal(3, n_areas) * 3.0,
            "soils": function.normal(3, n_soils) * 3.0,
            "frequencies": function.normal(3, 64) * 6.0,
            "phases": function.uniform(64) * 2.0 * np.pi,
            "offsets": function.normal(n_soils) * 2.0,
        }

    @cached_property
    def _median_height(self) -> float:
        """The median height, which is the threshold between the classes."""
        return float(np.median(self._features_and_heights(_RandomStream(self.seed, "middle"))[1]))

    def _features_and_heights(self, random: _RandomStream) -> tuple[np.ndarray, np.ndarray]:
        """Features and height of BLOCK random places; the height decides on the label."""
        coefficients = self._coefficients
        n_quantities, n_areas, n_soils = self._widths
        places = random.uniform(BLOCK, 3)
        jitter = random.normal(BLOCK, n_quantities) * 0.01
        quantities = (
            0.5 + 0.45 * np.sin(places @ coefficients["slopes"] + coefficients["shifts"]) + jitter
        )
        area = _drawn_columns(places @ coefficients["areas"], random.uniform(BLOCK, n_areas))
        soil = _drawn_columns(places @ coefficients["soils"], random.uniform(BLOCK, n_soils))
        rows = np.arange(BLOCK)
        X = np.zeros((BLOCK, self.d), dtype=np.float32)
        X[:, :n_quantities] = np.clip(quantities, 0.0, 1.0)
        X[rows, n_quantities + area] = 1.0
        X[rows, n_quantities + n_areas + soil] = 1.0
        waves = np.cos(places @ coefficients["frequencies"] + coefficients["phases"]).sum(axis=1)
        return X, waves + coefficients["offsets"][soil]

    def _block(self, random: _RandomStream) -> tuple[np.ndarray, np.ndarray]:
        X, heights = self._features_and_heights(random)
        flipped = random.uniform(BLOCK) < self.noise
        return X, np.where((heights > self._median_height) ^ flipped, 1.0, -1.0)


@dataclass(frozen=True)
class NoisyFunction(Generator):
    """y = cos(pi/2 |x|) exp(-pi/10 |x|) + noise * e, x uniform in [-5, 5]^d, e standard normal.

    Source: the synthetic regression problem of Dai et al., Scalable kernel methods via doubly
    stochastic gradients, NIPS 2014, which has d = 2 and noise = 0.1.
    """

    name = "noisy_function"

    def _block(self, random: _RandomStream) -> tuple[np.ndarray, np.ndarray]:
        X = (10.0 * random.uniform(BLOCK, self.d) - 5.0).astype(np.float32)
        length = np.linalg.norm(X.astype(np.float64), axis=1)
        clean = np.cos(0.5 * np.pi * length) * np.exp(-0.1 * np.pi * length)
        return X, clean + self.noise * random.normal(BLOCK)


def _drawn_columns(scores: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """One column per row, drawn with probability softmax(scores) by the Gumbel trick."""
    return np.argmax(scores - np.log(-np.log(uniform)), axis=1)


_BY_NAME: dict[str, type[Generator]] = {kind.name: kind for kind in (CovtypeLike, NoisyFunction)}


def build(name: str, *, d: int, seed: int, noise: float) -> Generator:
    """The generator called `name`; its constructor checks the parameters."""
    if name not in _BY_NAME:
        hint = nearest(name, _BY_NAME) or f"; there are {', '.join(_BY_NAME)}"
        raise ConfigError(f"no generator is called {name!r}{hint}")
    if isinstance(d, bool) or not isinstance(d, Integral):
        raise ConfigError(f"d is {d!r}, should be a whole number")
    return _BY_NAME[name](d, seed, noise)
