"""Fitted models of scikit-learn's classes with the solutions of kbench's estimators.

Programs that know `SVC`, `SVR` and `OneClassSVM` (converters, explainers) take these models. They
have the attributes that `BaseLibSVM.fit` of scikit-learn 1.6 to 1.9 sets, including private
attributes; `tests/methods/exact/test_to_sklearn.py` compares predictions.
"""

import inspect
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kbench.methods.base.widths import has_widths
from kbench.prediction.libsvm_file import LIBSVM_KERNELS


class HasPeer:
    """An estimator of one function that replaces the class of `sklearn.svm` named `_peer`."""

    _peer: ClassVar[str]

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

        return fitted_peer(getattr(sklearn.svm, self._peer), self)


def fitted_peer(
    peer: type, model: Any, n_support: np.ndarray | None = None, sign: float = 1.0
) -> Any:
    """A fitted estimator of the class `peer` with the coefficients of `model`.

    peer : SVC, NuSVC, SVR, NuSVR or OneClassSVM
    model : fitted estimator that replaces `peer` and has its public attributes
    n_support : (n_classes,) ints
        Support vectors of each class; None: there is one function and there are no classes.
    sign : Factor from public coefficients to the coefficients inside LIBSVM: -1 with two classes

    Raises NotFittedError.
    Raises ValueError: the kernel is not one of LIBSVM's, or `gamma` is an array.
    """
    check_is_fitted(model)
    name = type(model).__name__
    # Callables are left out, too: `SVC` hides their rows.
    if not isinstance(model.kernel, str) or model.kernel not in LIBSVM_KERNELS:
        raise ValueError(
            f"{name}.to_sklearn: kernel is {model.kernel!r}; {peer.__name__} computes "
            f"{', '.join(LIBSVM_KERNELS)} only"
        )
    if has_widths(model.gamma):
        raise ValueError(
            f"{name}.to_sklearn: gamma is an array of widths, {peer.__name__} has one; fit to rows "
            "whose columns are scaled (`gamma` in the documentation), with gamma=1.0"
        )
    params, accepted = model.get_params(deep=False), inspect.signature(peer).parameters
    # kbench calibrates probabilities in another way, and scikit-learn deprecates the parameter.
    parameters = {key: params[key] for key in accepted if key in params and key != "probability"}
    if isinstance(parameters.get("C"), str):
        parameters["C"] = model.C_  # the choice of "loo"
    estimator = peer(**parameters)
    support, coef = model.support_vectors_, model.dual_coef_
    sparse = sp.issparse(support)
    if sparse:
        support, coef = sp.csr_matrix(support, dtype=np.float64), _with_zeros(coef)
    else:
        support, coef = (np.ascontiguousarray(array, np.float64) for array in (support, coef))
    intercept = np.asarray(model.intercept_, np.float64)
    n_iter = np.atleast_1d(model.n_iter_).astype(np.int32)
    if n_support is None:
        n_support = np.array([len(model.support_), 0])
    attributes = {
        "support_": model.support_.astype(np.int32),
        "support_vectors_": support,
        "dual_coef_": coef,
        "_dual_coef_": sign * coef,
        "intercept_": intercept,
        "_intercept_": sign * intercept,
        "_n_support": np.asarray(n_support, np.int32),
        "_gamma": model._gamma,
        "_sparse": sparse,
        "_probA": np.empty(0),
        "_probB": np.empty(0),
        "_effective_probability": False,
        "_num_iter": n_iter,
        "n_iter_": n_iter if np.ndim(model.n_iter_) else model.n_iter_,
    }
    for key in ("shape_fit_", "fit_status_", "n_features_in_"):
        attributes[key] = getattr(model, key)
    for key in ("feature_names_in_", "classes_", "class_weight_", "offset_"):
        if hasattr(model, key):
            attributes[key] = getattr(model, key)
    vars(estimator).update(attributes)
    return estimator


def _with_zeros(coef: Any) -> sp.csr_matrix:
    """Sparse coefficients (m, s) whose zeros are stored: LIBSVM reads m s numbers."""
    m, s = coef.shape
    indices = np.tile(np.arange(s, dtype=np.int32), m), np.arange(m + 1, dtype=np.int32) * s
    return sp.csr_matrix((np.asarray(coef.toarray(), np.float64).ravel(), *indices), shape=(m, s))
