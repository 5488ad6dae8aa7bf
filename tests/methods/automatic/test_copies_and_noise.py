"""Estimators that choose for themselves take neither copies of rows nor noise for knowledge."""

import numpy as np
import pytest
from all_machines import build, machines
from sklearn.base import is_classifier

from kbench.methods import KernelSDCA, RecursiveFeatureClassifier, RecursiveFeatureRegressor

CHOOSING = [
    machine
    for machine in machines()
    if machine.cls.__module__.startswith("kbench.methods.automatic.")
]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
TARGETS = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.5 * RNG.normal(size=120)


@pytest.mark.parametrize("machine", CHOOSING, ids=str)
def test_copies_of_all_rows_change_nothing(machine):
    y = (TARGETS > 0).astype(int) if is_classifier(build(machine)) else TARGETS
    once = build(machine).fit(X[:60], y[:60])
    often = build(machine).fit(X[:60].repeat(7, axis=0), y[:60].repeat(7))
    np.testing.assert_allclose(often.predict(X[60:]), once.predict(X[60:]), atol=1e-5)
    if hasattr(once, "n_copies_"):
        assert (once.n_copies_, often.n_copies_) == (0, 360)
        assert often.cv_error_ == pytest.approx(once.cv_error_)


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_recognised(seed):
    rng = np.random.default_rng(seed)
    rows, new = rng.normal(size=(200, 8)), rng.normal(size=(500, 8))
    noise, labels = rng.normal(size=200), (rng.random(200) < 0.3).astype(int)
    predicted = RecursiveFeatureRegressor(random_state=0).fit(rows, noise).predict(new)
    assert predicted.std() < 0.3
    classes = RecursiveFeatureClassifier(random_state=0).fit(rows, labels).predict(new)
    assert classes.mean() < 0.1


def test_a_model_without_a_criterion_is_no_worse_than_the_most_frequent_class():
    """A few far rows make all others alike, so that rounding decides between three classes."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(300, 5)), np.repeat([0, 1, 2], [100, 125, 75])
    rows[rng.random(300) < 0.02] *= 1000.0
    with pytest.warns(match="ended at a training accuracy of .*, below the 0.42 of the most"):
        model = KernelSDCA(random_state=0).fit(rows, labels)
    assert model.score(rows, labels) >= 125 / 300
