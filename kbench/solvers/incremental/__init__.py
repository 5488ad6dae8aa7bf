"""Solvers that grow an expansion point by point: LaSVM, and SpSVM's greedy basis.

Solvers that start with all points are in `box_dual` and `small`.
"""
