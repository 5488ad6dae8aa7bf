"""Problems with bounds whose matrix has a low rank or is small, by an interior-point method.

`problem.py` states the problem, `factor_rows.py` reads the rows of a factor, `factors.py` has the
factorisations of Newton's equations, and `predictor_corrector.py` has the method. `active_set.py`
turns its last point into an exact optimum, `duals.py` states the duals of support vector machines
as such problems, and `counted_work.py` chooses the problems for which the method is used.
docs/solver.md, "Kernels of low rank", explains the modules. Steps of two coefficients are in
`box_dual` and `small`.
"""
