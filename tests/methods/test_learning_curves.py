"""Machines that learn step by step show themselves to the trace as they would be if they ended."""

import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from kbench.approximation import RandomFourierFeatures
from kbench.methods import (
    NORMA,
    ASkotchClassifier,
    DoublySGDClassifier,
    DoublySGDRegressor,
    EigenPro3Classifier,
    EigenPro3Regressor,
    EigenProRegressor,
    KernelSDCA,
    LinearizedSVC,
    PegasosClassifier,
    SDCAClassifier,
    SDDClassifier,
    SDDRegressor,
)
from kbench.trace import Trace

PASSES = [
    NORMA(batch_size=20, n_epochs=2, gamma=0.5, nu=1e-3, random_state=0),
    KernelSDCA(batch_size=20, n_epochs=2, gamma=0.5, nu=1e-3, random_state=0),
    PegasosClassifier(40, batch_size=20, n_epochs=2, gamma=0.5, nu=1e-3, random_state=0),
    DoublySGDClassifier(batch_size=20, n_epochs=2, block_size=20, average=0.5, random_state=0),
    DoublySGDRegressor(batch_size=20, n_epochs=2, block_size=20, random_state=0),
]
MACHINES = [
    *PASSES,
    SDCAClassifier(40, gamma=0.5, nu=1e-3, max_iter=5, random_state=0),
    LinearizedSVC(RandomFourierFeatures(40, gamma=0.5), random_state=0),
    ASkotchClassifier(0.1, gamma=0.5, block_size=30, random_state=0),
    SDDClassifier(0.1, gamma=0.5, batch_size=30, max_iter=300, random_state=0),
    SDDRegressor(1e-3, gamma=0.5, batch_size=30, max_iter=50, random_state=0),
    EigenProRegressor(0.1, gamma=0.5, batch_size=30, fit_intercept=True, random_state=0),
    EigenPro3Classifier(0.1, n_components=60, gamma=0.5, random_state=0),
    EigenPro3Regressor(
        0.0, n_components=60, gamma=0.5, batch_size=20, projection_passes=2, random_state=0
    ),
]


def name(machine):
    return type(machine).__name__


@pytest.mark.parametrize("machine", MACHINES, ids=name)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_shown_last_is_the_machine_and_looking_changes_nothing(machine):
    X, y = load_iris(return_X_y=True)
    samples, shown = [], []

    def look(seconds, state):
        samples.append(state["samples"])
        shown.append(state["predict"](X))

    watched = clone(machine).fit(X, y, trace=Trace(look))
    alone = clone(machine).fit(X, y)
    np.testing.assert_array_equal(shown[-1], watched.predict(X))
    np.testing.assert_array_equal(watched.predict(X), alone.predict(X))
    assert samples == sorted(set(samples))
    assert samples[0] < samples[-1]
    assert getattr(watched, "kernel_entries_", None) == getattr(alone, "kernel_entries_", None)
    if len(shown) > 4:
        assert np.any(shown[0] != shown[-1])


@pytest.mark.parametrize("machine", PASSES, ids=name)
def test_a_fit_ends_at_its_time_and_looking_takes_none_of_it(machine):
    X, y = load_iris(return_X_y=True)
    steps = []

    def look(seconds, state):
        steps.append(seconds)
        time.sleep(0.03)

    hurried = clone(machine).set_params(max_time=1e-9).fit(X, y)
    assert hurried.n_iter_ == 1
    hurried.predict(X)
    clone(machine).set_params(max_time=0.3).fit(X, y, trace=Trace(look))
    assert len(steps) == clone(machine).fit(X, y).n_iter_ > 10
