"""Problems with bounds whose matrix has a low rank or is small, by an interior-point method.

`problem.py` states the problem once, `factors.py` has the factorisations of its equations,
`predictor_corrector.py` the method; `active_set.py` makes an exact optimum of its last point,
`duals.py` poses support vector machines, and `counted_work.py` says which problems are worth it.
docs/solver.md, "Kernels of low rank", explains them.
"""
