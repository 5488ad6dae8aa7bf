"""Kernel matrices in hierarchically semi-separable form: compression, products, factorisation."""

from kbench.approximation.hss.matrix import HSSMatrix, ShiftedFactor
from kbench.approximation.hss.presets import PRESETS

__all__ = ["PRESETS", "HSSMatrix", "ShiftedFactor"]
