"""The SVC of scikit-learn-intelex (oneDAL), or an error if scikit-learn ran in its place.

The extension falls back to scikit-learn for parameters and data that it does not support, and says
so only in its log. A comparison needs to know which of the two ran.
"""

from typing import Any, Self

from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from kbench.errors import UnavailableError, required


class IntelexSVC(SVC):
    """`sklearn.svm.SVC` trained and evaluated by oneDAL.

    Parameters are those of `sklearn.svm.SVC`.

    Attributes
    ----------
    accelerated_ : sklearnex.svm.SVC
        The fitted estimator of the extension; its attributes `support_`, `dual_coef_`, ... are
        scikit-learn's.

    Notes
    -----
    `fit` raises `UnavailableError` when scikit-learn-intelex is not installed, or when it fell back
    to scikit-learn: a fit by oneDAL leaves a `_onedal_estimator` in the estimator, a fallback does
    not (scikit-learn-intelex 2025.0 to 2026.2).
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        svm = required("sklearnex.svm", "svc_intelex needs scikit-learn-intelex", "intelex")
        accelerated = svm.SVC(**self.get_params(deep=False)).fit(X, y, sample_weight)
        if not hasattr(accelerated, "_onedal_estimator"):
            raise UnavailableError(
                "svc_intelex: scikit-learn-intelex fell back to scikit-learn for these parameters"
                f" and data (kernel={self.kernel!r}, {type(X).__name__}); method svc is that solver"
            )
        self.accelerated_ = accelerated
        self.classes_ = accelerated.classes_
        self.n_features_in_ = accelerated.n_features_in_
        return self

    @property
    def n_support_(self) -> Any:
        return self.accelerated_.n_support_

    def predict(self, X: Any) -> Any:
        check_is_fitted(self, "accelerated_")
        return self.accelerated_.predict(X)

    def decision_function(self, X: Any) -> Any:
        check_is_fitted(self, "accelerated_")
        return self.accelerated_.decision_function(X)
