"""Prediction of single rows without checks, for estimators on packed local models."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kbench.prediction.landmarks import LocalLandmarks


class CompiledRows:
    """Mixin for estimators whose `_machine` is `LocalLandmarks`."""

    _machine: LocalLandmarks

    def compile(self) -> Callable[[np.ndarray], Any]:
        """A function of one row without checks, for services that predict rows one by one.

        Returns
        -------
        callable
            x : (d,) floats -> the value of the decision or regression function, a float; for more
            than two classes an array (n_classes,) that the next call overwrites. It does not check
            x, takes a few microseconds (`scripts/bench_fast_prediction.py`), and is not
            thread-safe.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from kbench.methods import DCPredClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = DCPredClassifier(2, gamma=1e-4, random_state=0).fit(X, y)
        >>> value = model.compile()
        >>> bool(value(X[0]) == model.decision_function(X[:1])[0])
        True
        """
        check_is_fitted(self)
        evaluate = self._machine.compile()
        if self._machine.constant.shape[1] > 1:
            return evaluate
        return lambda x: evaluate(x).item()
