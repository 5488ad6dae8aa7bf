"""LIBSVM's text file of a support vector machine, which `svm_load_model` and `svm-predict` read.

`svm_save_model` in LIBSVM's svm.cpp writes the same keywords.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from kbench.files import output_file

# svm_type of each class of scikit-learn.
_SVM_TYPES = {
    "SVC": "c_svc",
    "NuSVC": "nu_svc",
    "OneClassSVM": "one_class",
    "SVR": "epsilon_svr",
    "NuSVR": "nu_svr",
}
# Keyword and parameters of each kernel, by scikit-learn's name.
LIBSVM_KERNELS = {
    "linear": ("linear", ()),
    "poly": ("polynomial", ("degree", "gamma", "coef0")),
    "rbf": ("rbf", ("gamma",)),
    "sigmoid": ("sigmoid", ("gamma", "coef0")),
    "precomputed": ("precomputed", ()),
}


def save_libsvm(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted support vector machine as LIBSVM's model file.

    LIBSVM's decisions equal those of `model.to_sklearn()` up to rounding of float64. With two
    classes LIBSVM's value is positive for the first class, `decision_function` for the second.

    Parameters
    ----------
    model : fitted `KernelSVC`, `KernelNuSVC`, `KernelSVR`, `KernelNuSVR` or `KernelOneClassSVM`
        Or the estimator of `sklearn.svm` that one of these replaces.
    path : str or path
        An existing file is replaced once the new one is complete.

    Raises
    ------
    NotFittedError
        The model is not fitted.
    TypeError
        A model of another class.
    ValueError
        A kernel that LIBSVM does not have.
    KbenchError
        The file cannot be written.

    Notes
    -----
    Labels that are not integers of 32 bits are written as their positions in `classes_`.
    Probabilities are not written. Zeros of support vectors are left out. With kernel="precomputed"
    support vectors are numbers of training rows from 1 on, as LIBSVM counts them; LIBSVM's
    rows to predict are `0:1 1:k_1 2:k_2 ...`.

    O(n_sv d) time; memory holds one row at a time.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from kbench.methods import KernelSVC
    >>> from kbench.prediction import save_libsvm
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.model"
    >>> save_libsvm(KernelSVC().fit(*load_iris(return_X_y=True)), path)
    >>> path.read_text().split()[:4]
    ['svm_type', 'c_svc', 'kernel_type', 'rbf']
    """
    estimator = model.to_sklearn() if hasattr(model, "to_sklearn") else model
    svm_type = _SVM_TYPES.get(type(estimator).__name__)
    if svm_type is None or not type(estimator).__module__.startswith("sklearn.svm."):
        raise TypeError(
            f"save_libsvm: {type(model).__name__} is not a support vector machine of LIBSVM; "
            f"LIBSVM has the models of scikit-learn's {', '.join(_SVM_TYPES)}"
        )
    check_is_fitted(estimator)
    if estimator.kernel not in LIBSVM_KERNELS:
        raise ValueError(
            f"save_libsvm: kernel is {estimator.kernel!r}; LIBSVM has {', '.join(LIBSVM_KERNELS)}"
        )
    with output_file(Path(path)) as file:
        for line in _header(estimator, svm_type):
            file.write(f"{line}\n".encode())
        file.write(b"SV\n")
        for line in _support_vectors(estimator):
            file.write(f"{line}\n".encode())


def _header(estimator: Any, svm_type: str) -> Iterator[str]:
    kernel, parameters = LIBSVM_KERNELS[estimator.kernel]
    yield f"svm_type {svm_type}"
    yield f"kernel_type {kernel}"
    settings = {"degree": estimator.degree, "gamma": estimator._gamma, "coef0": estimator.coef0}
    for name in parameters:
        yield f"{name} {_number(settings[name])}"
    classes = getattr(estimator, "classes_", None) if svm_type in ("c_svc", "nu_svc") else None
    yield f"nr_class {2 if classes is None else len(classes)}"
    yield f"total_sv {len(estimator.support_)}"
    yield f"rho {_numbers(-estimator._intercept_)}"
    if classes is not None:
        yield f"label {' '.join(str(label) for label in _labels(classes))}"
        yield f"nr_sv {' '.join(str(count) for count in estimator.n_support_)}"


def _labels(classes: np.ndarray) -> list[int]:
    """Labels as LIBSVM's integers."""
    if classes.dtype.kind in "iufb":
        labels = [int(label) for label in classes]
        if labels == classes.tolist() and max(abs(label) for label in labels) < 2**31:
            return labels
    return list(range(len(classes)))


def _support_vectors(estimator: Any) -> Iterator[str]:
    """Yield a line for each support vector: coefficients, and entries that are not zero."""
    coef = estimator._dual_coef_
    coef = coef.toarray() if sp.issparse(coef) else coef
    if estimator.kernel == "precomputed":
        for weights, row in zip(coef.T, estimator.support_, strict=True):
            yield f"{_numbers(weights)} 0:{row + 1}"
        return
    vectors = estimator.support_vectors_
    for position, weights in enumerate(coef.T):
        if sp.issparse(vectors):
            row = slice(vectors.indptr[position], vectors.indptr[position + 1])
            order = np.argsort(vectors.indices[row], kind="stable")
            columns, values = vectors.indices[row][order], vectors.data[row][order]
        else:
            columns = np.flatnonzero(vectors[position])
            values = vectors[position, columns]
        entries = " ".join(
            f"{column + 1}:{_number(value)}" for column, value in zip(columns, values, strict=True)
        )
        yield f"{_numbers(weights)} {entries}".rstrip()


def _numbers(values: np.ndarray) -> str:
    return " ".join(_number(value) for value in values)


def _number(value: float) -> str:
    """Fewest digits from which the same float64 is read."""
    return repr(float(value)) if not float(value).is_integer() else f"{float(value):.17g}"
