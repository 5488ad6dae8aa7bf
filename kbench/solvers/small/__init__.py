"""The engine for problems of few points and for many classes; `kbench.solvers` has the other one."""

from kbench.solvers.small.choice import is_small
from kbench.solvers.small.dual import Limits, SmallDualResult, solve_each, solve_pairs
from kbench.solvers.small.rows import GaussianRows, MatrixRows, Rows

__all__ = [
    "GaussianRows",
    "Limits",
    "MatrixRows",
    "Rows",
    "SmallDualResult",
    "is_small",
    "solve_each",
    "solve_pairs",
]
