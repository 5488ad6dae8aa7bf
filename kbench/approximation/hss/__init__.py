"""Kernel matrices in hierarchically semi-separable form: compression, products, factorisation.

The estimators that solve with them, and ADMM, are in `kbench.methods.hss` and
`kbench.solvers.admm`.
"""

from kbench.approximation.hss.matrix import HSSMatrix
from kbench.approximation.hss.ulv import ShiftedFactor

__all__ = ["HSSMatrix", "ShiftedFactor"]
