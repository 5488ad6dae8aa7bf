"""The exact dual of support vector machines with the parameter nu, in which |b|_1 is limited.

`nu_descent` is the entry, `pairs` solves the pairs of classes of few points in one compiled loop.
Without nu, duals are in `box_dual` and `small`; docs/solver.md, "The parameter nu", explains both.
"""
