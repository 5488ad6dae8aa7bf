"""save_libsvm: model files that LIBSVM itself reads, with the decisions of our models."""

import ctypes

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

from kbench.methods import (
    KernelNuSVC,
    KernelNuSVR,
    KernelOneClassSVM,
    KernelQuantileRegressor,
    KernelSVC,
    KernelSVR,
)
from kbench.prediction import save_libsvm

X, Y = load_iris(return_X_y=True)
TARGET = np.sin(X[:, 0]) + X[:, 1]
MODELS = {
    "two classes": (KernelSVC, np.where(Y == 1, 7, -3)),
    "three classes": (KernelSVC, Y),
    "named classes": (KernelSVC, np.array(["a", "b", "c"])[Y]),
    "nu": (KernelNuSVC, Y),
    "regression": (KernelSVR, TARGET),
    "nu of a regression": (KernelNuSVR, TARGET),
    "one class": (KernelOneClassSVM, None),
}


def decisions(path, rows, n_values, *, is_kernel=False):
    """Labels or values that LIBSVM itself predicts for rows as dicts, and its decision values.

    `svm_predict` of libsvm-official takes one value of nu-classifiers with any number of classes
    and writes beyond its end, so LIBSVM's own function is called.
    """
    svm = pytest.importorskip("libsvm.svm", reason="needs LIBSVM's package, libsvm-official")
    svmutil = pytest.importorskip("libsvm.svmutil")
    model = svmutil.svm_load_model(str(path))
    assert model is not None
    labels, values = [], np.empty((len(rows), n_values))
    for row, out in zip(rows, values, strict=True):
        nodes, _ = svm.gen_svm_nodearray(row, isKernel=is_kernel)
        place = out.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        labels.append(svm.libsvm.svm_predict_values(model, nodes, place))
    return np.array(labels), values


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("name", MODELS)
def test_libsvm_reads_the_file_and_decides_alike(name, kernel, kind, tmp_path):
    cls, y = MODELS[name]
    data = sp.csr_array(X) if kind == "csr" else X
    model = cls(kernel=kernel, gamma=0.3, coef0=0.5, degree=2).fit(data, y)
    save_libsvm(model, tmp_path / "model")
    rows = [{j + 1: float(v) for j, v in enumerate(row)} for row in X]
    labels, values = decisions(tmp_path / "model", rows, len(model.intercept_))
    twin = model.to_sklearn()
    if cls not in (KernelSVC, KernelNuSVC):
        exact = twin.predict(data) if y is not None else twin.decision_function(data)
        np.testing.assert_allclose(values[:, 0], exact, rtol=1e-9, atol=1e-9)
        return
    twin.decision_function_shape = "ovo"
    exact = twin.decision_function(data)
    exact = -exact[:, None] if len(model.classes_) == 2 else exact
    np.testing.assert_allclose(values, exact, rtol=1e-6, atol=1e-6)
    classes = np.arange(3) if name == "named classes" else model.classes_
    expected = classes[np.searchsorted(model.classes_, twin.predict(data))]
    np.testing.assert_array_equal(labels, expected)


def test_given_values_are_read_by_the_numbers_of_rows(tmp_path):
    K = X @ X.T
    model = KernelSVC(kernel="precomputed").fit(K, Y)
    save_libsvm(model, tmp_path / "model")
    rows = [{0: i + 1} | {j + 1: float(v) for j, v in enumerate(k)} for i, k in enumerate(K)]
    labels, _ = decisions(tmp_path / "model", rows, 3, is_kernel=True)
    np.testing.assert_array_equal(labels, model.to_sklearn().predict(K))


def test_numbers_are_written_without_loss_and_zeros_are_left_out(tmp_path):
    data = np.array([[0.1, 0.0], [0.0, 1.0 / 3.0], [2.0, 1e-300]])
    model = KernelSVR(C=0.7, epsilon=0.0, gamma=0.1).fit(data, [1.0, -1.0, 0.3])
    save_libsvm(model, tmp_path / "model")
    header, vectors = (tmp_path / "model").read_text().split("SV\n")
    known = dict(line.split(" ", 1) for line in header.splitlines())
    assert known["svm_type"] == "epsilon_svr"
    assert float(known["gamma"]) == 0.1
    assert float(known["rho"]) == -model.intercept_[0]
    for line, row, coef in zip(
        vectors.splitlines(), model.support_vectors_, model.dual_coef_[0], strict=True
    ):
        weight, *entries = line.split()
        assert float(weight) == coef
        found = {int(k): float(v) for k, v in (entry.split(":") for entry in entries)}
        assert found == {j + 1: v for j, v in enumerate(row) if v != 0.0}


def test_a_model_of_scikit_learn_is_written_too(tmp_path):
    save_libsvm(SVC().fit(X, Y), tmp_path / "model")
    assert (tmp_path / "model").read_text().startswith("svm_type c_svc\n")


def test_what_libsvm_does_not_have_is_refused(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(ValueError, match="kernel is 'laplacian'"):
        save_libsvm(KernelSVC(kernel="laplacian").fit(X, Y), path)
    with pytest.raises(TypeError, match="KernelQuantileRegressor is not a support vector machine"):
        save_libsvm(KernelQuantileRegressor().fit(X, TARGET), path)
    for model in (KernelSVC(), SVC()):
        with pytest.raises(NotFittedError):
            save_libsvm(model, path)
    assert not path.exists()
