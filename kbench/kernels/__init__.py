"""Kernel functions, and kernel matrices that are computed block by block."""

from kbench.compiling import watch_compiling
from kbench.kernels.kernel import Kernel
from kbench.kernels.matrix import KernelMatrix, expand
from kbench.kernels.named import make_kernel
from kbench.kernels.registry import KERNELS

__all__ = ["KERNELS", "Kernel", "KernelMatrix", "expand", "make_kernel"]

watch_compiling()
