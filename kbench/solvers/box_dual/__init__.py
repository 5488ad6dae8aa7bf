"""The exact dual of support vector machines of many points; docs/solver.md explains the modules.

The section "Constants" of that page names the script for each constant whose comment names none.
`solve.py` is the entry, `strategy.py` solves groups one by one or all points together, and
`block_descent.py` is the main loop. `kbench.solvers.small` solves problems of few points.
"""
