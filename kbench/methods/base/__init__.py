"""Common parts of the estimators: one-vs-rest, labels, probabilities, penalties, limits.

A module lives here if estimators of two folders need it. It defines base classes and functions, no
estimator that a user constructs, and imports no other folder of `kbench.methods`.
"""
