"""Approximations of a clustered kernel matrix: block-diagonal (BKA) and MEKA.

Both divide the rows by k-means and approximate block by block. Matrices on a tree of clusters are
in `hss`; the clustering itself is in `kbench.clustering`.
"""
