"""ADMM for the dual of the support vector machine: on a factored matrix, and by random blocks.

The factors of the matrix are given: those of `kbench.approximation.hss` in practice.
"""
