"""Approximations on landmarks: Nystrom kinds, the choice of landmarks, pseudo landmarks.

One set of landmarks serves all rows; landmarks by cluster are in `clusters`. Landmarks that are
trained with the targets are in `kbench.solvers.stochastic`.
"""
