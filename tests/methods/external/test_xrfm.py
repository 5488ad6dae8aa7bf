"""xRFM behind scikit-learn's interface, with a stand-in for the package."""

import sys
import types

import numpy as np
import pytest

from kbench.errors import UnavailableError
from kbench.methods import XRFMClassifier, XRFMRegressor


class NearestNeighbour:
    """Takes what `xrfm.xRFM` takes: float32 rows, class numbers or float targets, held-out rows."""

    def __init__(self, **options):
        assert options["device"] == "cpu"

    def fit(self, X, y, X_val, y_val):
        assert X.dtype == X_val.dtype == np.float32
        assert len(X) == 4 * len(X_val)
        assert y.dtype == y_val.dtype
        assert y.dtype in (np.int64, np.float32)
        self.X, self.y = X, y

    def predict(self, X):
        return self.y[np.linalg.norm(X[:, None] - self.X, axis=2).argmin(axis=1)][:, None]


@pytest.fixture
def package(monkeypatch):
    module = types.ModuleType("xrfm")
    module.xRFM = NearestNeighbour
    monkeypatch.setitem(sys.modules, "xrfm", module)


@pytest.mark.usefixtures("package")
def test_labels_and_targets_come_back_in_their_own_units():
    X = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 1e3, 1e-3]
    labels = np.where(X[:, 1] > 0, "high", "low")
    classifier = XRFMClassifier(random_state=0).fit(X, labels)
    assert classifier.classes_.tolist() == ["high", "low"]
    assert classifier.score(X, labels) > 0.9
    target = 1e4 + 50.0 * X[:, 0]
    assert XRFMRegressor(random_state=0).fit(X, target).score(X, target) > 0.8


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xrfm", None)
    with pytest.raises(UnavailableError, match=r"pip install 'kbench\[xrfm\]'") as error:
        XRFMRegressor().fit(np.eye(4), np.arange(4.0))
    assert "\n" not in str(error.value)
