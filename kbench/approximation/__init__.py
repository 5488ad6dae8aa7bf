"""Structured approximations of kernel matrices; those with explicit features are transformers."""

from kbench.approximation.fastfood import Fastfood
from kbench.approximation.feature_map import FeatureBlocks, FeatureMap
from kbench.approximation.fourier import RandomFourierFeatures
from kbench.approximation.hadamard import walsh_hadamard
from kbench.approximation.hss import HSSMatrix
from kbench.approximation.landmarks import LandmarkFeatures
from kbench.approximation.nystrom import Nystrom

__all__ = [
    "Fastfood",
    "FeatureBlocks",
    "FeatureMap",
    "HSSMatrix",
    "LandmarkFeatures",
    "Nystrom",
    "RandomFourierFeatures",
    "walsh_hadamard",
]
