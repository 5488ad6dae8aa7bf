"""Structured approximations of kernel matrices; approximations by features are transformers.

`operator.py` has the interface. `features` has explicit maps, and matrices that are products of
features; `landmarks` has Nystrom kinds, `clusters` BKA and MEKA, `hss` matrices on a tree; `seeded`
draws random features again instead of storing them, `expansions` replaces many points by few. These
modules do not see targets: estimators are in `kbench.methods`, optimisation in `kbench.solvers`.
"""

from kbench.approximation.clusters.block_diagonal import BKA, BlockDiagonalKernel
from kbench.approximation.clusters.meka import MEKA
from kbench.approximation.clusters.meka_matrix import MEKAKernel
from kbench.approximation.features.factored import FactoredKernel
from kbench.approximation.features.fastfood import Fastfood
from kbench.approximation.features.feature_map import (
    FeatureBlocks,
    FeatureMachine,
    FeatureMap,
    LowRankKernel,
)
from kbench.approximation.features.fourier import RandomFourierFeatures
from kbench.approximation.features.hadamard import walsh_hadamard
from kbench.approximation.features.random_features import RandomFeatures
from kbench.approximation.hss import HSSMatrix
from kbench.approximation.landmarks.landmarks import LandmarkFeatures
from kbench.approximation.landmarks.nystrom import Nystrom
from kbench.approximation.landmarks.spectral_nystrom import SpectralNystrom
from kbench.approximation.operator import (
    Approximation,
    KernelApproximation,
    Machine,
    kernel_error,
    sampled_rows,
)

__all__ = [
    "BKA",
    "MEKA",
    "Approximation",
    "BlockDiagonalKernel",
    "FactoredKernel",
    "Fastfood",
    "FeatureBlocks",
    "FeatureMachine",
    "FeatureMap",
    "HSSMatrix",
    "KernelApproximation",
    "LandmarkFeatures",
    "LowRankKernel",
    "MEKAKernel",
    "Machine",
    "Nystrom",
    "RandomFeatures",
    "RandomFourierFeatures",
    "SpectralNystrom",
    "kernel_error",
    "sampled_rows",
    "walsh_hadamard",
]
