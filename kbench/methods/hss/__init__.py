"""Estimators on a hierarchically semi-separable (HSS) kernel matrix, and ADMM as their rival.

The compression of the matrix is in `kbench.approximation.hss`, ADMM in `kbench.solvers`.
"""
