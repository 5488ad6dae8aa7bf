"""xRFM, the recursive feature machines of the package `xrfm`, as scikit-learn estimators.

D. Beaglehole, D. Holzmuller, A. Radhakrishnan, M. Belkin, "xRFM: Accurate, scalable, and
interpretable feature learning models for tabular data", 2025. The package needs held-out rows, on
which it chooses among its rounds of feature learning, and features and targets of unit variance;
this module provides both.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kbench import class_labels
from kbench.errors import required
from kbench.methods.base.standardised import standardised_rows
from kbench.validated import fit_context, integer, usual, validate_data


@dataclass(eq=False, repr=False, kw_only=True)
class _XRFM(BaseEstimator):
    """Base of the classifier and the regressor.

    Parameters
    ----------
    max_leaf_size : int, default=10000
        Largest number of rows in a leaf of the tree, whose kernel matrix takes 4 max_leaf_size^2
        bytes; the package's default, 60,000, takes 14 GB. Set by hand.
    n_trees : int, default=1
    validation_fraction : float, default=0.2
        Fraction of the rows that is held out to choose among rounds. Set by hand.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    model_ : xrfm.xRFM
        The fitted model, with the package's default kernel, bandwidth, ridge and rounds, on the
        processor.
    n_features_in_ : int

    Notes
    -----
    `fit` raises `UnavailableError` if the package is not installed.
    """

    _parameter_constraints: ClassVar[dict] = {
        "max_leaf_size": [integer(1)],
        "n_trees": [integer(1)],
        **usual("validation_fraction", "random_state"),
    }

    max_leaf_size: int = 10_000
    n_trees: int = 1
    validation_fraction: float = 0.2
    random_state: Any = None

    def _fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        package_class = required("xrfm", "xrfm needs the package xrfm", "xrfm").xRFM
        rng = check_random_state(self.random_state)
        order = rng.permutation(len(X))
        n_held_out = max(1, round(self.validation_fraction * len(X)))
        held_out, training = order[:n_held_out], order[n_held_out:]
        self._scaler = StandardScaler().fit(X[training])
        Z = standardised_rows(self._scaler, X).astype(np.float32)
        self.model_ = package_class(
            max_leaf_size=self.max_leaf_size,
            n_trees=self.n_trees,
            device="cpu",
            random_state=int(rng.randint(2**31)),
            verbose=False,
        )
        self.model_.fit(Z[training], y[training], Z[held_out], y[held_out])
        return self

    def _predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=False, accept_sparse=False)
        return np.asarray(
            self.model_.predict(standardised_rows(self._scaler, X).astype(np.float32))
        )


class XRFMClassifier(ClassifierMixin, _XRFM):
    """xRFM for classes; `classes_` holds their labels. Parameters as in the base class."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X : (n, d), dense, and labels y : (n,)."""
        X, y = validate_data(self, X, y, accept_sparse=False)
        self.classes_, index = class_labels.encode(y)
        class_labels.require_two(len(self.classes_), "class")
        return self._fit(X, index.astype(np.int64))

    def predict(self, X: Any) -> np.ndarray:
        """Labels of rows X : (u, d); (u,)."""
        index = self._predict(X).reshape(-1).astype(np.int64)
        return self.classes_[index]


class XRFMRegressor(RegressorMixin, _XRFM):
    """xRFM for one target. Parameters as in the base class."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X : (n, d), dense, and targets y : (n,)."""
        X, y = validate_data(self, X, y, accept_sparse=False, y_numeric=True)
        y = np.asarray(y, np.float64)
        self._mean, self._deviation = float(y.mean()), float(y.std()) or 1.0
        return self._fit(X, ((y - self._mean) / self._deviation).astype(np.float32))

    def predict(self, X: Any) -> np.ndarray:
        """Estimates at rows X : (u, d); (u,) float64."""
        values = self._predict(X).reshape(-1).astype(np.float64)
        return self._mean + self._deviation * values
