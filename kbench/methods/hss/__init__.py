"""Estimators on a hierarchically semi-separable (HSS) kernel matrix, and RACQP.

RACQP is an ADMM on exact kernel values. The compression of the matrix is in
`kbench.approximation.hss`, ADMM in `kbench.solvers`.
"""
