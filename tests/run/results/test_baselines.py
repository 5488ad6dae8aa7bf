"""The scikit-learn baselines: all parameters named, and at their defaults."""

import inspect
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from kbench.errors import UnavailableError
from kbench.methods.external.intelex import IntelexSVC
from kbench.run.planning.registry import load, target

CONFIGS = Path(__file__).parents[3] / "configs" / "method"
CLASSIFIERS = (
    *("svc", "linear_svc", "mlp", "knn", "random_forest", "hist_gradient_boosting", "dummy"),
    *("svc_intelex", "conv_joint"),
)
REGRESSORS = (
    *("svr", "ridge", "knn_regressor", "random_forest_regressor", "mlp_regressor"),
    *("hist_gradient_boosting_regressor", "dummy_regressor", "sklearn_krr"),
)
OUTLIERS = ("one_class_svm", "isolation_forest")
TASKS = {name: ["binary", "multiclass"] for name in CLASSIFIERS}
TASKS |= {name: ["regression"] for name in REGRESSORS} | {name: ["outlier"] for name in OUTLIERS}
# Set by the runner, or deprecated (`probability` of SVC, from scikit-learn 1.9 on).
LEFT_OUT = {"random_state", "verbose", "n_jobs", "probability"}
# Where we do not follow scikit-learn's default.
OTHER_DEFAULTS = {("sklearn_krr", "kernel"): "rbf"}


def read(name):
    """(name, class, meta, parameters) with every `${use:path,default}` at its default."""
    text = (CONFIGS / f"{name}.yaml").read_text()
    config = yaml.safe_load(re.sub(r"\$\{use:[\w.]+,([^}]*)\}", r"\1", text))
    meta = config.pop("meta")
    return config.pop("name"), load(target(config.pop("estimator"))).estimator, meta, config


def defaults(cls):
    signature = inspect.signature(cls.__init__).parameters.values()
    return {p.name: p.default for p in signature if p.name != "self"}


@pytest.mark.parametrize("name", TASKS)
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
    assert meta["tasks"] == TASKS[name]
    assert set(meta["warmup"]) <= set(parameters)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


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
