"""Optimisation engines; they know no estimator."""

from kbench.solvers.box_dual import BoxDualResult, solve_box_dual
from kbench.solvers.cg import CGResult, solve_cg
from kbench.solvers.kernel_ridge import solve_kernel_ridge
from kbench.solvers.linear_dual import LinearDualResult, RowBlocks, solve_linear_dual
from kbench.solvers.sparse_primal import SparsePrimalResult, solve_sparse_primal

__all__ = [
    "BoxDualResult",
    "CGResult",
    "LinearDualResult",
    "RowBlocks",
    "SparsePrimalResult",
    "solve_box_dual",
    "solve_cg",
    "solve_kernel_ridge",
    "solve_linear_dual",
    "solve_sparse_primal",
]
