"""Conversion of fitted estimators of kbench to fitted estimators of `sklearn.svm`.

Programs that know `SVC`, `SVR` and `OneClassSVM` (converters, explainers) take the results, which
have the attributes that `BaseLibSVM.fit` of scikit-learn 1.6 to 1.9 sets, including private
attributes; `tests/methods/exact/test_to_sklearn.py` compares attributes and predictions.
"""

import inspect
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kbench.methods.base.widths import has_widths
from kbench.prediction.libsvm_file import LIBSVM_KERNELS


class ConvertsToSklearn:
    """Adds `to_sklearn` to an estimator with a single decision or regression function.

    `_sklearn_class` is the name of the class of `sklearn.svm` that the estimator replaces.
    """

    _sklearn_class: ClassVar[str]

    def to_sklearn(self) -> Any:
        """A fitted estimator of scikit-learn with this solution, for programs that know its class.

        The estimator sums in float64, so that its values equal this model's up to rounding.

        Raises
        ------
        NotFittedError
        ValueError
            The kernel is not "linear", "poly", "rbf", "sigmoid" or "precomputed", those of LIBSVM,
            or `gamma` is an array with a width of each feature.
        """
        import sklearn.svm  # imports scipy.stats, half a second

        return sklearn_estimator(getattr(sklearn.svm, self._sklearn_class), self)


def sklearn_estimator(
    sklearn_class: type, fitted: Any, n_support: np.ndarray | None = None, sign: float = 1.0
) -> Any:
    """A fitted estimator of the class `sklearn_class` with the coefficients of `fitted`.

    sklearn_class : SVC, NuSVC, SVR, NuSVR or OneClassSVM
    fitted : fitted estimator that replaces `sklearn_class` and has its public attributes
    n_support : (n_classes,) ints
        Number of support vectors of each class; None for an estimator without classes.
    sign : Factor from public coefficients to the coefficients inside LIBSVM, which have the other
        sign in classifiers of two classes: -1 for these, otherwise 1.

    Raises NotFittedError.
    Raises ValueError: the kernel is not one of LIBSVM's, or `gamma` is an array.
    """
    check_is_fitted(fitted)
    name = type(fitted).__name__
    # Callable kernels are refused, too: `SVC` keeps the training rows, which they need, in an
    # attribute with a mangled name.
    if not isinstance(fitted.kernel, str) or fitted.kernel not in LIBSVM_KERNELS:
        raise ValueError(
            f"{name}.to_sklearn: kernel is {fitted.kernel!r}; {sklearn_class.__name__} computes "
            f"{', '.join(LIBSVM_KERNELS)} only"
        )
    if has_widths(fitted.gamma):
        raise ValueError(
            f"{name}.to_sklearn: gamma is an array of widths, {sklearn_class.__name__} has one; "
            "fit to rows whose columns are scaled (`gamma` in the documentation), with gamma=1.0"
        )
    values, accepted = fitted.get_params(deep=False), inspect.signature(sklearn_class).parameters
    # `probability` is left out, because kbench calibrates probabilities in another way, and because
    # scikit-learn deprecates the parameter.
    parameters = {key: values[key] for key in accepted if key in values and key != "probability"}
    if isinstance(parameters.get("C"), str):
        parameters["C"] = fitted.C_  # the choice of "loo"
    converted = sklearn_class(**parameters)
    support, coef = fitted.support_vectors_, fitted.dual_coef_
    is_sparse = sp.issparse(support)
    if is_sparse:
        support, coef = sp.csr_matrix(support, dtype=np.float64), _with_zeros(coef)
    else:
        support, coef = (np.ascontiguousarray(array, np.float64) for array in (support, coef))
    intercept = np.asarray(fitted.intercept_, np.float64)
    n_iter = np.atleast_1d(fitted.n_iter_).astype(np.int32)
    if n_support is None:
        # Without classes scikit-learn reads only the first of two numbers.
        n_support = np.array([len(fitted.support_), 0])
    attributes = {
        "support_": fitted.support_.astype(np.int32),
        "support_vectors_": support,
        "dual_coef_": coef,
        "_dual_coef_": sign * coef,
        "intercept_": intercept,
        "_intercept_": sign * intercept,
        "_n_support": np.asarray(n_support, np.int32),
        "_gamma": fitted._gamma,
        "_sparse": is_sparse,
        "_probA": np.empty(0),
        "_probB": np.empty(0),
        "_effective_probability": False,
        "_num_iter": n_iter,
        "n_iter_": n_iter if np.ndim(fitted.n_iter_) else fitted.n_iter_,
    }
    for key in ("shape_fit_", "fit_status_", "n_features_in_"):
        attributes[key] = getattr(fitted, key)
    for key in ("feature_names_in_", "classes_", "class_weight_", "offset_"):
        if hasattr(fitted, key):
            attributes[key] = getattr(fitted, key)
    vars(converted).update(attributes)
    return converted


def _with_zeros(coef: Any) -> sp.csr_matrix:
    """Return sparse coefficients (m, s) in CSR with explicit zeros: LIBSVM reads m s numbers."""
    m, s = coef.shape
    indices = np.tile(np.arange(s, dtype=np.int32), m), np.arange(m + 1, dtype=np.int32) * s
    return sp.csr_matrix((np.asarray(coef.toarray(), np.float64).ravel(), *indices), shape=(m, s))
