"""Optimisation engines; they know no estimator."""

from kbench.solvers.box_dual import BoxDualResult, solve_box_dual

__all__ = ["BoxDualResult", "solve_box_dual"]
