"""Estimators on a hierarchically semi-separable (HSS) kernel matrix, and RACQP, ADMM without one.

The compression of the matrix is in `kbench.approximation.hss`, ADMM in `kbench.solvers`.
"""
