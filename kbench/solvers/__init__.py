"""Optimisation engines; they know no estimator."""

from kbench.solvers.box_dual import BoxDualResult, solve_box_dual
from kbench.solvers.linear_dual import LinearDualResult, RowBlocks, solve_linear_dual

__all__ = [
    "BoxDualResult",
    "LinearDualResult",
    "RowBlocks",
    "solve_box_dual",
    "solve_linear_dual",
]
