"""Estimators on an approximate kernel or on a few points: MEKA, Nystrom, features, Falkon, SpSVM.

The approximations themselves are in `kbench.approximation`. Hierarchically semi-separable matrices
have a folder of their own, `hss`, and random features that are never stored are in `stochastic`.
"""
