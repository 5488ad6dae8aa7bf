"""Kernel functions, and kernel matrices that are computed block by block."""

from kbench.kernels.functions import Kernel, make_kernel
from kbench.kernels.matrix import KernelMatrix, expand, fill_block

__all__ = ["Kernel", "KernelMatrix", "expand", "fill_block", "make_kernel"]
