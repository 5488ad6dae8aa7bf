"""The exact dual of support vector machines of many points; docs/solver.md explains the modules.

Its section "Constants" names the script for each constant whose comment names none.
`solve.py` is the entry, `strategy.py` decides how, `block_descent.py` is the main loop. Problems of
few points, whose kernel matrix is stored, are solved in `kbench.solvers.small`.
"""
