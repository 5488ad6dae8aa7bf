"""Small problems that tests of several machines share."""

import numpy as np
from sklearn.datasets import load_digits


def ring(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where((X**2).sum(axis=1) + 0.5 * rng.normal(size=n) > 1.4, 1, -1)


def binary(n=300, seed=0, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, "yes", "no")


def blobs(n=500, seed=0, spread=4.0):
    rng = np.random.default_rng(seed)
    centre = rng.integers(0, 5, n)
    X = rng.normal(size=(n, 2)) + spread * np.column_stack([centre, centre % 2])
    return X, np.where(np.sin(X[:, 0]) + 0.5 * rng.normal(size=n) > 0, 1, -1)


def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order] / 16.0, y[order]
