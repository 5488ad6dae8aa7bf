"""The scikit-learn baselines: all parameters named, at their defaults, and able to learn."""

import inspect
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.datasets import load_diabetes, load_digits
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from kbench.errors import UnavailableError
from kbench.methods.external.intelex import IntelexSVC
from kbench.run.planning.registry import load, target
from kbench.run.results.metrics import score

CONFIGS = Path(__file__).parents[3] / "configs" / "method"
CLASSIFIERS = (
    "svc",
    "linear_svc",
    "mlp",
    "knn",
    "random_forest",
    "hist_gradient_boosting",
    "dummy",
)
REGRESSORS = (
    "svr",
    "ridge",
    "knn_regressor",
    "random_forest_regressor",
    "hist_gradient_boosting_regressor",
    "mlp_regressor",
    "dummy_regressor",
    "sklearn_krr",
)
DETECTORS = ("one_class_svm", "isolation_forest")
pytestmark = pytest.mark.usefixtures("one_thread")
# Set by the runner, or deprecated (`probability` of SVC, from scikit-learn 1.9 on).
LEFT_OUT = {"random_state", "verbose", "n_jobs", "probability"}
# Where we do not follow scikit-learn's default.
OTHER_DEFAULTS = {("sklearn_krr", "kernel"): "rbf"}


@pytest.fixture
def one_thread():
    with threadpool_limits(1):
        yield


def read(name):
    """(name, class, meta, parameters) with every `${use:path,default}` at its default."""
    text = (CONFIGS / f"{name}.yaml").read_text()
    config = yaml.safe_load(re.sub(r"\$\{use:[\w.]+,([^}]*)\}", r"\1", text))
    meta = config.pop("meta")
    return config.pop("name"), load(target(config.pop("estimator"))).estimator, meta, config


def defaults(cls):
    signature = inspect.signature(cls.__init__).parameters.values()
    return {p.name: p.default for p in signature if p.name != "self"}


@pytest.mark.parametrize(
    "name", [*CLASSIFIERS, *REGRESSORS, *DETECTORS, "svc_intelex", "conv_joint"]
)
def test_parameters_are_the_class_own(name):
    stored, cls, meta, parameters = read(name)
    own = defaults(cls)
    assert stored == name
    assert set(parameters) == set(own) - LEFT_OUT
    for parameter, value in parameters.items():
        expected = OTHER_DEFAULTS.get((name, parameter), own[parameter])
        assert (tuple(value) if isinstance(value, list) else value) == expected, parameter
    assert set(meta) - {"tuner"} == {"about", "tasks", "role", "extra", "warmup"}
    assert meta["role"] == "baseline"
    assert set(meta["warmup"]) <= set(parameters)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


# 200 epochs, scikit-learn's default, do not bring the perceptron to its tolerance here.
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifier_learns_digits(name, digits):
    X, y = digits
    _, cls, meta, parameters = read(name)
    assert meta["tasks"] == ["binary", "multiclass"]
    seed = {"random_state": 0} if "random_state" in defaults(cls) else {}
    model = cls(**parameters, **seed).fit(X[:600], y[:600])
    accuracy = score("multiclass", y[600:], model.predict(X[600:]))["accuracy"]
    if name == "dummy":
        assert accuracy == np.mean(y[600:] == np.bincount(y[:600]).argmax())
    else:
        assert accuracy > 0.85


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressor_learns_diabetes(name):
    X, y = load_diabetes(return_X_y=True)
    y = (y - y.mean()) / y.std()
    X = X / X.std(axis=0)
    _, cls, meta, parameters = read(name)
    assert meta["tasks"] == ["regression"]
    seed = {"random_state": 0} if "random_state" in defaults(cls) else {}
    model = cls(**parameters, **seed).fit(X[:300], y[:300])
    explained = score("regression", y[300:], model.predict(X[300:]))["r2"]
    if name == "dummy_regressor":
        assert explained <= 0.0
    else:
        assert explained > 0.3


@pytest.fixture
def extension(monkeypatch):
    """A stand-in for `sklearnex.svm`, whose SVC accelerates the Gaussian kernel only."""

    class FakeSVC(SVC):
        def fit(self, X, y, sample_weight=None):
            super().fit(X, y, sample_weight)
            if self.kernel == "rbf":
                self._onedal_estimator = object()
            return self

    module = types.ModuleType("sklearnex.svm")
    module.SVC = FakeSVC
    monkeypatch.setitem(sys.modules, "sklearnex", types.ModuleType("sklearnex"))
    monkeypatch.setitem(sys.modules, "sklearnex.svm", module)


@pytest.mark.usefixtures("extension")
def test_intelex_is_the_extension(digits):
    X, y = digits
    model, peer = IntelexSVC(C=2.0).fit(X[:300], y[:300]), SVC(C=2.0).fit(X[:300], y[:300])
    assert model.accelerated_.C == 2.0
    assert np.array_equal(model.n_support_, peer.n_support_)
    assert np.array_equal(model.predict(X[300:]), peer.predict(X[300:]))
    assert np.array_equal(model.decision_function(X[300:]), peer.decision_function(X[300:]))


@pytest.mark.usefixtures("extension")
def test_intelex_refuses_to_be_scikit_learn(digits):
    X, y = digits
    with pytest.raises(UnavailableError, match="fell back") as error:
        IntelexSVC(kernel=lambda a, b: a @ b.T).fit(X[:100], y[:100])
    assert "\n" not in str(error.value)


def test_intelex_without_the_extension(monkeypatch, digits):
    X, y = digits
    monkeypatch.setitem(sys.modules, "sklearnex", None)
    with pytest.raises(UnavailableError, match=r"kbench\[intelex\]"):
        IntelexSVC().fit(X[:100], y[:100])
