"""Kernel functions, and kernel matrices that are computed block by block."""

from kbench.compiling import watch_compiling
from kbench.kernels.functions import Kernel
from kbench.kernels.matrix import KernelMatrix, expand
from kbench.kernels.named import make_kernel

__all__ = ["Kernel", "KernelMatrix", "expand", "make_kernel"]

watch_compiling()
