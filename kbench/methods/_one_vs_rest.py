"""What classifiers made of binary machines share: checks, labels, weights, decisions."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kbench.methods._new_rows import checked_rows


class Targets(NamedTuple):
    """A training set as one or several binary problems."""

    X: Any  # (n, d) array or CSR, checked
    Y: np.ndarray  # (n, m) of -1, +1; m = 1 for two classes, else one-vs-rest
    C: np.ndarray  # (n,) C times the weights of row and class; (n, p) for p values of C


class OneVsRest(ClassifierMixin, BaseEstimator, ABC):
    """Base of the classifiers; a subclass has `fit` and `_decide`."""

    # Whether `_decide` has to be spared rows that are not finite, or refuses them itself.
    _checks_finite: ClassVar[bool] = True

    @abstractmethod
    def _decide(self, X: Any) -> np.ndarray:
        """Values for checked rows X : (u, d); (u, 1) for two classes, else (u, n_classes)."""

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed values of the decision functions.

        Parameters
        ----------
        X : (u, d) array or CSR; with kernel="precomputed" (u, n_train)

        Returns
        -------
        (u,) float64 for two classes, positive for `classes_[1]`; else (u, n_classes)
        """
        if self._checks_finite:
            check_is_fitted(self)
            X = validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
            )
        else:
            X = checked_rows(self, X)
        values = self._decide(X)
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,)."""
        values = self.decision_function(X)
        if values.ndim == 1:
            # Arrays of one, not entries: so texts keep their type. Half the time of indices.
            return np.where(values > 0, self.classes_[1:], self.classes_[:1])
        return self.classes_[np.argmax(values, axis=1)]

    def _targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        """Check the input, learn the classes and set up the binary problems."""
        X, index, C = self._checked(X, y, sample_weight)
        return Targets(X=X, Y=self._signs(index), C=C)

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """Check the input and learn the classes.

        Returns
        -------
        X : (n, d) array or CSR
        index : (n,) number of each row's class in `classes_`
        C : (n,) C times the weights of row and class
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_, index = np.unique(y, return_inverse=True)
        n_weighted = np.count_nonzero(np.bincount(index, weight > 0))
        if n_weighted < 2:
            raise ValueError(
                f"y has {n_weighted} class with positive weight, but 2 classes are needed"
            )
        if self.class_weight is not None:
            class_weight = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            weight = weight * class_weight[index]
        return X, index, np.multiply.outer(weight, self.C)

    def _signs(self, index: np.ndarray) -> np.ndarray:
        """Y of the binary problems for classes index : (n,); (n, m)."""
        positive = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return np.where(np.equal.outer(index, positive), 1.0, -1.0)

    def _count_by_class(self, Y: np.ndarray) -> np.ndarray:
        """Rows of each class among rows of targets Y : (s, m); (n_classes,)."""
        positive = Y > 0
        if len(self.classes_) == 2:
            positive = np.hstack([~positive, positive])
        return positive.sum(axis=0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
