"""Kernel functions, and kernel matrices that are computed block by block."""

from kbench.compiling import announce_compiling
from kbench.kernels.functions import Kernel
from kbench.kernels.matrix import KernelMatrix, expand
from kbench.kernels.named import make_kernel

__all__ = ["Kernel", "KernelMatrix", "expand", "make_kernel"]

announce_compiling()
