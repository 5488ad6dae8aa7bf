"""The small-problem solver, for few points and many classes; `box_dual` is for many points.

`dual` is the entry, `choice` says which problems are solved here, `steps`, `face` and
`exact_optimum` are compiled into the loop of `problems`. Problems with the parameter nu are in
`nu_dual`. docs/solver.md, "Small problems", explains this solver.
"""

from kbench.solvers.small.choice import MAX_POINTS_OF_REGRESSION, is_small
from kbench.solvers.small.dual import SmallDualResult, StepLimits, solve_each, solve_pairs
from kbench.solvers.small.rows import GaussianRows, KernelValues, MatrixRows, interior_work

__all__ = [
    "MAX_POINTS_OF_REGRESSION",
    "GaussianRows",
    "KernelValues",
    "MatrixRows",
    "SmallDualResult",
    "StepLimits",
    "interior_work",
    "is_small",
    "solve_each",
    "solve_pairs",
]
