"""Checks of parameters and rows in a few microseconds; scikit-learn's checks take hundreds.

On 100 rows a support vector machine is solved in less time than scikit-learn takes to check its
input. This module recognises plain NumPy arrays of finite floats. Any other input, and every
mistake, goes to scikit-learn's checks, which make the messages and conversions.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kbench.chunked import FLOATS
from kbench.validated import validate_data

# Sets of parameters of any estimator that have passed the check, 0.5 KB each, and their largest
# number, which is limited because a search may try any number of them; set by hand.
_checked_parameters: set[tuple] = set()
_MAX_CHECKED_PARAMETERS = 1000


class QuickChecks(BaseEstimator):
    """Mixin of estimators that are fitted to few rows, often."""

    def _validate_params(self) -> None:
        """Run scikit-learn's check of parameters, but only once for equal parameters."""
        attributes = vars(self)
        try:
            parameters = [attributes[name] for name in type(self).__init__.__code__.co_varnames[1:]]
            key = (type(self), *((type(value), value) for value in parameters))
            if key in _checked_parameters:
                return
        except (KeyError, TypeError):
            # A value is not hashable (a dict), or an argument of `__init__` is not an attribute.
            super()._validate_params()
            return
        super()._validate_params()
        if len(_checked_parameters) < _MAX_CHECKED_PARAMETERS:
            _checked_parameters.add(key)

    def _checked_rows_and_targets(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """X : (n, d) array or CSR of floats and y : (n,), checked; sets `n_features_in_`.

        options : arguments of scikit-learn's `validate_data`
        """
        if (
            type(X) is np.ndarray
            and type(y) is np.ndarray
            and X.dtype in FLOATS
            and X.ndim == 2
            and min(X.shape) > 0
            and y.shape == X.shape[:1]
            and y.dtype.kind in "biufU"
            and "feature_names_in_" not in vars(self)
            # Guard: all entries are finite, and not so small that their squares underflow, which
            # `validate_data` refuses: 1e-300 is the square of its limit for float64 entries.
            and 1e-300 < np.einsum("ij,ij->", X, X) < np.inf
            and (y.dtype.kind != "f" or np.isfinite(y.sum()))
        ):
            self.n_features_in_ = X.shape[1]
            return X, y
        return validate_data(self, X, y, **options)
