"""Problems with bounds whose matrix has a low rank or is small, by an interior-point method.

`problem.py` states the problem, `factors.py` has the factorisations of its equations,
`predictor_corrector.py` the method; `active_set.py` makes an exact optimum of its last point,
`duals.py` poses support vector machines, and `counted_work.py` chooses the problems for which the
method is used. docs/solver.md, "Kernels of low rank", explains the modules. Steps of two
coefficients are in `box_dual` and `small`.
"""
