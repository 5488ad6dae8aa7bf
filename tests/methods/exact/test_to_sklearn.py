"""to_sklearn: fitted estimators of scikit-learn that predict as our models do."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from kbench.methods import KernelNuSVC, KernelNuSVR, KernelOneClassSVM, KernelSVC, KernelSVR

X, Y = load_iris(return_X_y=True)
TARGETS = {
    "two classes": (KernelSVC, SVC, np.where(Y == 1, "b", "a")),
    "three classes": (KernelSVC, SVC, Y),
    "two classes, nu": (KernelNuSVC, NuSVC, np.where(Y > 0, "b", "a")),
    "three classes, nu": (KernelNuSVC, NuSVC, Y),
    "regression, nu": (KernelNuSVR, NuSVR, np.sin(X[:, 0]) + X[:, 1]),
    "regression": (KernelSVR, SVR, np.sin(X[:, 0]) + X[:, 1]),
    "one class": (KernelOneClassSVM, OneClassSVM, None),
}


def rows(kind, kernel):
    if kernel == "precomputed":
        return X @ X.T
    return {"dense": X, "csr_array": sp.csr_array(X), "csr_matrix": sp.csr_matrix(X)}[kind]


@pytest.mark.parametrize("problem", TARGETS)
@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("rbf", "dense"),
        ("rbf", "csr_array"),
        ("linear", "dense"),
        ("linear", "csr_matrix"),
        ("poly", "dense"),
        ("sigmoid", "dense"),
        ("precomputed", "dense"),
    ],
)
def test_the_twin_predicts_the_same_and_has_the_same_attributes(problem, kernel, kind):
    ours, theirs, y = TARGETS[problem]
    if ours is KernelNuSVC and kernel == "sigmoid":
        pytest.skip("the kernel is indefinite, and the classes have no margin in it")
    data = rows(kind, kernel)
    model = ours(kernel=kernel, coef0=0.5, gamma=0.1, tol=1e-4).fit(data, y)
    twin = pickle.loads(pickle.dumps(model.to_sklearn()))
    assert type(twin) is theirs
    fitted = clone(twin).fit(data, y)
    # Whatever scikit-learn's own fit leaves behind is there, in its types and shapes.
    assert vars(twin).keys() == vars(fitted).keys() | (vars(twin).keys() & {"feature_names_in_"})
    for name, value in vars(fitted).items():
        twins = getattr(twin, name)
        assert getattr(twins, "dtype", None) == getattr(value, "dtype", None), name
        assert np.ndim(twins) == np.ndim(value), name
        assert sp.issparse(twins) == sp.issparse(value), name
    value = "predict" if ours in (KernelSVR, KernelNuSVR) else "decision_function"
    expected = getattr(model, value)(data)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(getattr(twin, value)(data), expected, atol=1e-4 * scale)
    if ours in (KernelSVC, KernelNuSVC):
        assert np.mean(twin.predict(data) == model.predict(data)) > 0.99
        np.testing.assert_array_equal(twin.n_support_, model.n_support_)
    if kernel == "linear":
        normals, expected = (
            m.coef_.toarray() if sp.issparse(m.coef_) else m.coef_ for m in (twin, model)
        )
        np.testing.assert_allclose(normals, expected, rtol=1e-8, atol=1e-8)


def test_columns_by_name_and_pairwise_values_are_kept():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = KernelSVC(decision_function_shape="ovo").fit(frame, Y)
    twin = model.to_sklearn()
    assert list(twin.feature_names_in_) == list("abcd")
    values = twin.decision_function(frame)
    np.testing.assert_allclose(values, model.decision_function(frame), atol=1e-5)


def test_a_chosen_c_is_a_number_and_a_model_without_support_is_constant():
    twin = KernelSVC("loo").fit(X, Y).to_sklearn()
    assert twin.C > 0.0
    clone(twin).fit(X, Y)
    for data in (X, sp.csr_array(X)):
        model = KernelSVR(epsilon=100.0).fit(data, X[:, 0])
        assert not len(model.support_)
        np.testing.assert_allclose(model.to_sklearn().predict(data), model.predict(data))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            KernelSVC(kernel="laplacian"),
            "KernelSVC.to_sklearn: kernel is 'laplacian'; SVC computes",
        ),
        (KernelSVR(kernel=lambda A, B: A @ B.T), "SVR computes linear, poly"),
        (KernelSVC(multi_class="ovr"), "multi_class='ovo' and fit_intercept=True"),
    ],
)
def test_what_scikit_learn_cannot_compute_is_refused(model, said):
    with pytest.raises(NotFittedError):
        model.to_sklearn()
    with pytest.raises(ValueError, match=said):
        model.fit(X, Y).to_sklearn()


@pytest.mark.filterwarnings("ignore")  # of packages that read what scikit-learn will rename
@pytest.mark.parametrize("problem", TARGETS)
def test_a_converted_model_predicts_the_same_up_to_float32(problem):
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    ours, _, y = TARGETS[problem]
    data = X.astype(np.float32)
    model = ours(gamma=0.1, tol=1e-4).fit(data, y)
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    written = skl2onnx.to_onnx(model.to_sklearn(), data[:1], options=options)
    session = onnxruntime.InferenceSession(
        written.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found, *values = session.run(None, {"X": data})
    if y is not None and not hasattr(model, "classes_"):
        np.testing.assert_allclose(found.ravel(), model.predict(data), rtol=1e-5, atol=1e-5)
        return
    decided = model.decision_function(data)
    sure = np.abs(decided.reshape(len(data), -1)).min(axis=1) > 1e-4
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(found.ravel()[sure], model.predict(data)[sure])
    columns = values[0].reshape(len(data), -1)
    scores = columns if decided.ndim == 2 else columns[:, 0]
    np.testing.assert_allclose(scores, decided, rtol=1e-4, atol=1e-4)
