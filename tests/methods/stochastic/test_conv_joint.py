"""The net of trained filters: what it computes, how it learns, and a line where PyTorch is absent.

Where PyTorch is absent, a stand-in trains the last layer alone: the net of fixed filters.
"""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_digits

from kbench.approximation.seeded.named_blocks import seeded_features
from kbench.errors import UnavailableError
from kbench.methods.stochastic import conv_joint
from kbench.methods.stochastic.conv_joint import JointConvolutionClassifier
from kbench.prediction import load_model, save_model
from kbench.trace import Trace

SMALL = {"n_filters": 8, "batch_size": 100, "n_epochs": 3, "random_state": 0}


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


def features(images, first, second):
    X = np.ascontiguousarray(images.reshape(len(images), -1))
    out = np.empty((len(X), (images.shape[2] // 4) ** 2 * second.shape[1]), np.float32)
    conv_joint.apply_filters(X, first, second, out)
    return out


@pytest.fixture
def last_layer_alone():
    """Makes fits of gradient steps on the last layer, without PyTorch; remembers the images."""
    seen = []

    def descend(weights, batches, step_sizes, momentum, weight_decay):
        first, second, coef, intercept = weights
        for (images, classes), step_size in zip(batches, step_sizes, strict=True):
            seen.append(images)
            Z = features(images, first, second)
            scores = Z @ coef + intercept
            residual = softmax(scores, axis=1)
            residual[np.arange(len(classes)), classes] -= 1.0
            coef -= step_size * Z.T @ residual / len(classes)
            intercept -= step_size * residual.mean(axis=0)
            yield -log_softmax(scores, axis=1)[np.arange(len(classes)), classes].mean(), len(Z)

    def fit(model, X, y, trace=None):
        return model._fit_by(descend, X, y, trace or Trace())

    fit.seen = seen
    return fit


def test_it_starts_as_the_net_of_fixed_filters_and_predicts_with_numpy(last_layer_alone, tmp_path):
    X, y = digits()
    model = last_layer_alone(JointConvolutionClassifier(step_size=3.0, **SMALL), X[:500], y[:500])
    seed = np.random.RandomState(0).randint(2**31 - 1)
    blocks = seeded_features("convolution", 64, 8 * 4, seed, 1.0)
    Z = np.empty((len(X), 32), np.float32)
    scaled = X * np.float32(1.0 / np.sqrt(np.mean(X[:500].astype(np.float64) ** 2)))
    blocks.fill(0, scaled, Z)
    values = Z @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), values, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), values.argmax(axis=1))
    np.testing.assert_allclose(model.predict_proba(X), softmax(values, axis=1), atol=1e-4)
    np.testing.assert_allclose(model.decision_function(sp.csr_array(X)), values, atol=1e-4)
    assert model.score(X[500:], y[500:]) > 0.3
    assert model.n_parameters_ == 25 * 16 + 400 * 8 + 32 * 10 + 10
    assert model.prediction_flops_ == (blocks.multiplications + 32 * 10) / 64
    twin = load_model(save_model(tmp_path / "net.npz", model)).estimator
    np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))


def test_batches_are_copies_of_the_rows_and_steps_fall(last_layer_alone):
    X, y = digits()
    samples, losses = [], []

    def look(seconds, state):
        samples.append(state["samples"])
        losses.append(state["loss"])
        assert state["predict"](X[:5]).shape == (5,)

    model = JointConvolutionClassifier(virtual="shifts", n_copies=2, step_size=1.0, **SMALL)
    last_layer_alone(model, X, y, Trace(look))
    assert model.n_iter_ == len(samples) == 3 * 12
    assert samples[-1] == 3 * 1200
    assert np.mean(losses[-5:]) < losses[0]
    assert losses[0] == pytest.approx(np.log(10))
    seen = np.concatenate(last_layer_alone.seen[:12]).reshape(1200, 64)
    assert np.mean(np.abs(seen) ** 2) <= 1.0 + 1e-6  # shifts lose pixels
    rows = {row.tobytes() for row in model._scaled_images(X)}
    assert 600 <= sum(row.tobytes() in rows for row in seen) < 1100
    hurried = last_layer_alone(JointConvolutionClassifier(max_time=1e-9, **SMALL), X, y)
    assert hurried.n_iter_ == 1


def test_two_classes_have_one_value(last_layer_alone):
    X, y = digits()
    rows = y < 2
    model = JointConvolutionClassifier(step_size=3.0, **SMALL)
    last_layer_alone(model, X[rows], y[rows])
    value = model.decision_function(X[rows])
    np.testing.assert_array_equal(value > 0, model.predict(X[rows]) == 1)
    np.testing.assert_allclose(1 / (1 + np.exp(-value)), model.predict_proba(X[rows])[:, 1])


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (np.ones((4, 63)), [0, 1, 0, 1], {}, "X has 63 features, which do not form square images"),
        (np.ones((4, 9)), [0, 1, 0, 1], {}, "images of 3 x 3 pixels, should have at least 4 x 4"),
        (np.ones((4, 64)), [1, 1, 1, 1], {}, "y has 1 class, but 2 classes are needed"),
        (np.ones((4, 64)), [0, 1, 0, 1], {"n_copies": 2}, "n_copies is 2, should be 1 if"),
    ],
)
def test_mistakes_are_named(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        JointConvolutionClassifier(**options).fit(X, y)


def test_without_pytorch_it_is_unavailable_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableError, match=r"needs PyTorch .* pip install 'kbench\[torch\]'$"):
        JointConvolutionClassifier().fit(*digits())


def test_a_step_follows_the_gradient_in_all_layers():
    """Central differences of the loss of the NumPy net, along random directions."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    X, y = digits()
    images, classes = X[:50].reshape(-1, 1, 8, 8) / 8, y[:50]
    rng = np.random.default_rng(0)
    weights = [
        rng.normal(size=shape).astype(np.float32) / 8 for shape in [(25, 16), (400, 4), (16, 10)]
    ]
    weights.append(np.zeros(10, np.float32))

    def loss(parts):
        scores = features(images, *parts[:2]).astype(np.float64) @ parts[2] + parts[3]
        return -log_softmax(scores, axis=1)[np.arange(50), classes].mean()

    after = [part.copy() for part in weights]
    step = 1e-3
    descent = conv_joint.descend(torch, tuple(after), [(images, classes)], [step], 0.5, 0.0)
    ((before, n_rows),) = list(descent)
    assert before == pytest.approx(loss(weights), rel=1e-4)
    assert n_rows == 50
    for i, (part, moved) in enumerate(zip(weights, after, strict=True)):
        gradient = (part - moved) / (1.5 * step)  # Nesterov's first step: 1 + momentum
        direction = gradient / np.linalg.norm(gradient)
        ends = [
            loss([p + t * direction if j == i else p for j, p in enumerate(weights)])
            for t in (0.01, -0.01)
        ]
        assert (ends[0] - ends[1]) / 0.02 == pytest.approx(np.linalg.norm(gradient), rel=0.05)


def test_filters_learn_with_pytorch():
    pytest.importorskip("torch", reason="needs the extra torch")
    X, y = digits()
    options = {**SMALL, "n_filters": 16, "n_epochs": 30, "batch_size": 50}
    one, two = (JointConvolutionClassifier(**options).fit(X[:500], y[:500]) for _ in range(2))
    assert one.score(X[500:], y[500:]) > 0.75
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-3, atol=1e-4)
    start = JointConvolutionClassifier(**options | {"max_time": 1e-9}).fit(X[:500], y[:500])
    assert np.linalg.norm(one.filters_[1] - start.filters_[1]) > 0.05
