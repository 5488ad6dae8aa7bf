"""ADMM for the dual of the support vector machine: on a factored matrix, and by random blocks.

The caller gives the factors of the matrix; in practice they come from `kbench.approximation.hss`.
"""
