"""`partial_fit`: a stream in chunks is the stream in one piece, and a fit in the same order."""

import inspect
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel

import kbench.methods
from kbench.approximation import BKA, MEKA, RandomFourierFeatures
from kbench.methods import (
    NORMA,
    ApproximateRidge,
    ApproximateRidgeClassifier,
    KernelSDCA,
    LaSVC,
    PegasosClassifier,
    SDCAClassifier,
)

X, Y = load_digits(return_X_y=True)
X = X / 16.0
CHUNK = 64
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
STREAMS = {
    "NORMA": NORMA(gamma=0.05, batch_size=CHUNK, n_epochs=1, random_state=0),
    "KernelSDCA": KernelSDCA(gamma=0.05, batch_size=CHUNK, random_state=0),
    "PegasosClassifier": PegasosClassifier(gamma=0.05, batch_size=CHUNK, random_state=0),
    "SDCAClassifier": SDCAClassifier(gamma=0.05, random_state=0),
    "LaSVC": LaSVC(gamma=0.05, random_state=0),
}


def streamed(name, rows, labels, chunk=CHUNK, **parameters):
    model = type(STREAMS[name])(**{**STREAMS[name].get_params(), **parameters})
    for start in range(0, len(labels), chunk):
        part = slice(start, start + chunk)
        model.partial_fit(rows[part], labels[part], classes=np.unique(Y))
    return model


# The seeds of LaSVC are five rows of each class in the first chunk, where it has them.
@pytest.mark.parametrize(
    ("name", "chunk"), [("NORMA", CHUNK), ("PegasosClassifier", CHUNK), ("LaSVC", 2 * CHUNK)]
)
def test_chunks_of_one_batch_are_the_stream_in_one_piece(name, chunk):
    """Their steps do not depend on the length of the stream."""
    chunks = streamed(name, X[:640], Y[:640], chunk=chunk)
    whole = streamed(name, X[:640], Y[:640], chunk=640)
    np.testing.assert_allclose(
        chunks.decision_function(X[640:]), whole.decision_function(X[640:]), rtol=1e-3, atol=1e-3
    )
    assert chunks.n_iter_ == whole.n_iter_
    assert name == "LaSVC" or whole.n_iter_ == 10


@pytest.mark.parametrize("name", STREAMS)
def test_a_fit_is_the_stream_of_its_rows_in_their_order(name):
    estimator = STREAMS[name]
    rng = np.random.RandomState(0)
    if name in ("PegasosClassifier", "SDCAClassifier"):
        rng.randint(2**31)  # the seed of the features
    order = rng.permutation(640)
    # The linear solver takes its rows in a random order of its own; LaSVC has an order for each
    # class and solves the dual in the end (test_la_svc.py compares its visits).
    inexact = ("SDCAClassifier", "LaSVC")
    one_pass = {} if name in ("NORMA", *inexact) else {"n_epochs": 1}
    fit = clone(estimator).set_params(**one_pass).fit(X[:640], Y[:640])
    stream = streamed(name, X[order], Y[order], chunk=640)
    a, b = fit.decision_function(X[640:]), stream.decision_function(X[640:])
    if name in inexact:
        assert np.mean(a.argmax(axis=1) == b.argmax(axis=1)) > 0.85
    else:
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["KernelSDCA", "SDCAClassifier"])
def test_earlier_dual_variables_shrink_as_the_stream_grows(name):
    """After a chunk without weight the function is the old one times n_before / n."""
    model = streamed(name, X[:300], Y[:300], chunk=300)
    before = model.decision_function(X[600:])
    model.partial_fit(X[300:400], Y[300:400], sample_weight=np.full(100, 1e-12))
    after = model.decision_function(X[600:])
    np.testing.assert_allclose(after, 0.75 * before, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["NORMA", "KernelSDCA", "LaSVC"])
def test_the_expansion_names_rows_of_the_stream(name):
    model = streamed(name, X[:320], Y[:320])
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    values = rbf_kernel(X[500:520], model.support_vectors_, 0.05) @ model.dual_coef_.T
    np.testing.assert_allclose(model.decision_function(X[500:520]), values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", STREAMS)
def test_a_fitted_machine_goes_on_and_chunks_may_be_sparse(name):
    model = type(STREAMS[name])(**STREAMS[name].get_params()).fit(X[:320], Y[:320])
    for start in range(320, 1280, CHUNK):
        rows = slice(start, start + CHUNK)
        model.partial_fit(sp.csr_array(X[rows]), Y[rows])
    assert model.score(X[1280:], Y[1280:]) > 0.5
    assert model.n_seen_ == 1280


@pytest.mark.parametrize("name", STREAMS)
def test_mistakes_leave_the_model_as_it_is(name):
    fresh = type(STREAMS[name])(**STREAMS[name].get_params())
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        fresh.partial_fit(X[:64], Y[:64])
    with pytest.raises(ValueError, match="not among the known classes"):
        fresh.partial_fit(X[:64], Y[:64], classes=[0, 1])
    assert not hasattr(fresh, "classes_")
    model = streamed(name, X[:128], Y[:128])
    before = model.decision_function(X[:50])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:64, :5], Y[:64])
    with pytest.raises(ValueError, match="is not the same"):
        model.partial_fit(X[:64], Y[:64], classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not among the known classes"):
        model.partial_fit(X[:64], Y[:64] + 90)
    np.testing.assert_array_equal(model.decision_function(X[:50]), before)
    with pytest.raises(ValueError, match="needs all rows"):
        streamed(name, X[:64], Y[:64], class_weight="balanced")


def test_every_stream_has_the_signature_of_scikit_learn():
    for name in kbench.methods.__all__:
        partial_fit = getattr(getattr(kbench.methods, name), "partial_fit", None)
        if partial_fit is not None:
            words = list(inspect.signature(partial_fit).parameters)
            assert words[:3] == ["self", "X", "y"]
            assert "sample_weight" in words


FEATURES = RandomFourierFeatures(128, gamma=0.05, random_state=3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_ridge_on_random_features_is_the_same_from_chunks_as_from_all_rows(storage, weighted):
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 640) if weighted else None
    rows, targets = X[:640], np.column_stack([Y[:640], -2.0 * Y[:640]])
    fit = ApproximateRidge(FEATURES, alpha=0.5).fit(rows, targets, weight)
    classifier = ApproximateRidgeClassifier(FEATURES, alpha=0.5).fit(rows, Y[:640], weight)
    for chunk in (50, 640):
        stream, labels = clone(fit), clone(classifier)
        for start in range(0, 640, chunk):
            part = slice(start, start + chunk)
            own = None if weight is None else weight[part]
            stream.partial_fit(storage(rows[part]), targets[part], own)
            labels.partial_fit(rows[part], Y[:640][part], np.arange(10), own)
        np.testing.assert_allclose(stream.predict(X[640:]), fit.predict(X[640:]), atol=1e-3)
        values = labels.decision_function(X[640:])
        np.testing.assert_allclose(values, classifier.decision_function(X[640:]), atol=1e-3)
        assert stream.n_seen_ == labels.n_seen_ == 640


def test_a_stream_of_ridge_goes_on_after_it_was_stored():
    model = ApproximateRidge(FEATURES, alpha=0.5).partial_fit(X[:300], Y[:300])
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[300:640], Y[300:640])
    whole = ApproximateRidge(FEATURES, alpha=0.5).fit(X[:640], Y[:640])
    np.testing.assert_allclose(again.predict(X[640:]), whole.predict(X[640:]), atol=1e-3)


def test_clusters_of_a_ridge_are_those_of_the_first_chunk():
    model = ApproximateRidgeClassifier(MEKA(20, n_clusters=3, gamma=0.05), random_state=0)
    for start in range(0, 1280, 320):
        part = slice(start, start + 320)
        model.partial_fit(X[part], Y[part], np.arange(10))
    assert model.score(X[1280:], Y[1280:]) > 0.85


def test_what_a_stream_of_ridge_refuses_and_warns_of():
    fitted = ApproximateRidge(FEATURES).fit(X[:100], Y[:100])
    with pytest.warns(UserWarning, match="forgets what fit has learned"):
        stream = fitted.partial_fit(X[:100], Y[:100])
    assert stream.n_seen_ == 100
    with pytest.raises(ValueError, match="2 targets"):
        stream.partial_fit(X[:100], np.column_stack([Y[:100], Y[:100]]))
    assert not hasattr(ApproximateRidge(BKA(2)), "partial_fit")
    assert not hasattr(ApproximateRidge(FEATURES, solver="cg"), "partial_fit")
    fresh = ApproximateRidgeClassifier(FEATURES)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        fresh.partial_fit(X[:64], Y[:64])
    with pytest.raises(ValueError, match="not among the known classes"):
        fresh.partial_fit(X[:64], Y[:64], classes=[0, 1])
