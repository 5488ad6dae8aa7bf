"""Kernel functions, and kernel matrices that are computed block by block.

`functions` has a file for each kernel; the modules beside it hold what kernels share: tiles,
layouts, threads. Approximate matrices and features are in `kbench.approximation`, sums over centres
in `kbench.prediction`.
"""

from kbench.compiling import watch_compiling
from kbench.kernels.kernel import Kernel
from kbench.kernels.matrix import KernelMatrix, expand
from kbench.kernels.named import make_kernel
from kbench.kernels.registry import KERNELS

__all__ = ["KERNELS", "Kernel", "KernelMatrix", "expand", "make_kernel"]

watch_compiling()
