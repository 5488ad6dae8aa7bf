"""Kernel matrices in hierarchically semi-separable form: compression, products, factorisation."""

from kbench.approximation.hss.matrix import HSSMatrix
from kbench.approximation.hss.ulv import ShiftedFactor

__all__ = ["HSSMatrix", "ShiftedFactor"]
