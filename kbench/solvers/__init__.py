"""Optimisation engines; they know no estimator."""

from kbench.solvers.admm import ADMMResult, balance, intercepts, solve_admm
from kbench.solvers.box_dual import BoxDualResult, solve_box_dual
from kbench.solvers.cg import CGResult, solve_cg
from kbench.solvers.kernel_ridge import solve_kernel_ridge
from kbench.solvers.linear_dual import LinearDualResult, RowBlocks, solve_linear_dual
from kbench.solvers.racqp import RACQPResult, solve_racqp
from kbench.solvers.sparse_primal import SparsePrimalResult, solve_sparse_primal

__all__ = [
    "ADMMResult",
    "BoxDualResult",
    "CGResult",
    "LinearDualResult",
    "RACQPResult",
    "RowBlocks",
    "SparsePrimalResult",
    "balance",
    "intercepts",
    "solve_admm",
    "solve_box_dual",
    "solve_cg",
    "solve_kernel_ridge",
    "solve_linear_dual",
    "solve_racqp",
    "solve_sparse_primal",
]
