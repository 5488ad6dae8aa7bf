"""An estimator for the tests of tuning: predicts by nearest centre, slowly or not at all."""

import os
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Scripted(ClassifierMixin, BaseEstimator):
    """Nearest centre of the classes, shrunk towards their mean.

    Parameters
    ----------
    shrink : float, from 0 to 1, where all centres are one.
    seconds : float, of sleep, before which a byte is added to the file `fits`.
    breaks : bool, whether a fit of more than 300 rows raises.
    """

    def __init__(self, shrink=0.0, seconds=0.0, breaks=False):
        self.shrink = shrink
        self.seconds = seconds
        self.breaks = breaks

    def fit(self, X, y):
        if X.shape[0] > 300:
            if self.seconds:
                with Path("fits").open("ab") as fits:
                    fits.write(b".")
            time.sleep(self.seconds)
            if self.breaks:
                raise RuntimeError("broke")
        self.classes_ = np.unique(y)
        centres = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        self.centres_ = centres + self.shrink * (X.mean(axis=0) - centres)
        return self

    def predict(self, X):
        squares = (self.centres_**2).sum(axis=1) - 2 * X @ self.centres_.T
        return self.classes_[squares.argmin(axis=1)]


class Walker(Scripted):
    """The same, and says as `n_iter_` how many fits in a row it has lived through.

    Parameters
    ----------
    breaks_at, dies_at : float or None, values of `shrink` at which `fit` raises, or ends the
        process.
    """

    def __init__(self, shrink=0.0, seconds=0.0, breaks_at=None, dies_at=None, warm_start=False):
        self.shrink = shrink
        self.seconds = seconds
        self.breaks_at = breaks_at
        self.dies_at = dies_at
        self.warm_start = warm_start

    breaks = property(lambda self: self.shrink == self.breaks_at)

    def fit(self, X, y):
        if X.shape[0] > 300 and self.shrink == self.dies_at:
            os._exit(3)
        self.n_iter_ = 1 + (getattr(self, "n_iter_", 0) if self.warm_start else 0)
        return super().fit(X, y)
