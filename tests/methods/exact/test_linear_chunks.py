"""KernelSVC(kernel="linear") on rows in chunks: the model of the rows in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification

from kbench.chunked import ChunkedRows
from kbench.errors import KbenchError
from kbench.methods import KernelSVC
from tests.methods.chunk_rows import chunked


def rows_of(classes=2, n=900, shift=0.0):
    X, y = make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=classes, flip_y=0.05, random_state=0
    )
    return (X + shift).astype(np.float32), y


MODELS = {
    "two classes": (KernelSVC(kernel="linear"), 2),
    "large C": (KernelSVC(kernel="linear", C=1e4), 2),
    "no intercept": (KernelSVC(kernel="linear", fit_intercept=False), 2),
    "balanced": (KernelSVC(kernel="linear", C=0.1, class_weight="balanced"), 2),
    "pairs": (KernelSVC(kernel="linear"), 3),
    "against the rest": (KernelSVC(kernel="linear", multi_class="ovr"), 3),
    "weights of classes": (KernelSVC(kernel="linear", class_weight={0: 3.0, 2: 0.5}), 3),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_model_is_that_of_rows_in_memory(name, kind):
    model, classes = MODELS[name]
    X, y = rows_of(classes)
    if kind == "sparse":
        X[np.abs(X) < 0.5] = 0.0
    whole = model.fit(X, y)
    coef, intercept = whole.coef_.copy(), whole.intercept_.copy()
    values, objective = whole.decision_function(X), whole.objective_
    n_rows = len(whole.dual_coef_)
    rows = chunked(sp.csr_matrix(X) if kind == "sparse" else X, y, memory_mb=1)
    model.fit(rows)
    assert model.converged_
    assert "interior-point" in model.notes_[0]
    assert np.allclose(model.coef_, coef, atol=1e-9 * max(1.0, np.abs(coef).max()))
    assert np.allclose(model.intercept_, intercept, atol=1e-8)
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
    assert model.duality_gap_ <= 1e-9 * abs(objective)
    # The expansion over the support vectors is one of float32 values.
    assert np.allclose(model.decision_function(X), values, atol=1e-3)
    assert np.array_equal(model.predict(ChunkedRows.of_arrays(X)), model.predict(X))
    if classes == 2:
        expected = X.astype(np.float64) @ model.coef_[0] + model.intercept_[0]
        assert np.allclose(
            model.decision_function(X), expected, atol=1e-12 * np.abs(expected).max()
        )
    assert model.score(rows) == np.mean(model.predict(X) == y)
    C = model.C * model.class_weight_.max()
    assert model.dual_coef_.shape == (n_rows, len(model.support_))
    assert len(model.support_) == model.n_support_.sum()
    assert np.abs(model.dual_coef_).max() <= C
    assert np.all(np.diff(np.searchsorted(model.classes_, y)[model.support_]) >= 0)


def test_chunks_change_no_bit():
    X, y = rows_of(3)
    first = KernelSVC(kernel="linear").fit(chunked(X, y, memory_mb=1))
    again = KernelSVC(kernel="linear").fit(chunked(X, y, sizes=(400, 3), memory_mb=1))
    assert np.array_equal(first.coef_, again.coef_)
    assert np.array_equal(first.dual_coef_, again.dual_coef_)
    assert np.array_equal(first.intercept_, again.intercept_)


def test_columns_far_from_zero_and_constant_ones_keep_their_digits():
    X, y = rows_of()
    near = KernelSVC(kernel="linear").fit(chunked(X, y))
    far = np.column_stack([X.astype(np.float64) + 2.0**20, np.full(len(X), 7.0)])
    model = KernelSVC(kernel="linear").fit(chunked(far, y))
    assert np.allclose(model.coef_[0, :5], near.coef_[0], atol=1e-7)
    assert model.coef_[0, 5] == 0.0
    assert model.violation_ <= 1e-6


def test_a_fit_in_memory_after_one_in_chunks_has_support_vectors_again():
    X, y = rows_of()
    model = KernelSVC(kernel="linear").fit(chunked(X, y))
    with pytest.raises(ValueError, match="keeps the hyperplanes"):
        model.to_sklearn()
    assert not hasattr(model, "support_vectors_")
    coef = model.coef_.copy()
    model.fit(X, y)
    assert np.allclose(model.to_sklearn().coef_, coef, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KernelSVC(), "kernel='linear'"),
        (KernelSVC(kernel="linear", probability=True), "probability=False"),
    ],
)
def test_other_problems_need_their_rows_in_memory(model, message):
    X, y = rows_of()
    assert not model.accepts_chunks
    with pytest.raises(ValueError, match=message):
        model.fit(chunked(X, y))


def test_too_little_memory_is_an_error_before_the_rows_are_written(tmp_path):
    X, y = rows_of(n=20_000)
    rows = ChunkedRows.of_arrays(X, y, memory_mb=1, scratch=tmp_path)
    with pytest.raises(KbenchError, match="memory_mb=1 is too little"):
        KernelSVC(kernel="linear").fit(rows)
    assert not list(tmp_path.iterdir())


def test_a_limit_is_said():
    X, y = rows_of()
    with pytest.warns(Warning, match="stopped by max_iter"):
        model = KernelSVC(kernel="linear", max_iter=2).fit(chunked(X, y))
    assert not model.converged_
    assert model.n_iter_[0] == 2
