"""KernelSVC(warm_start=True) over several C: the machine of each C, in fewer steps than alone."""

import copy

import numpy as np
import pytest
from small_problems import ring

from kbench.methods import KernelSVC

VALUES = [0.01, 0.1, 1.0, 10.0, 100.0]


def warm_machines(X, y, values, **parameters):
    """A machine for each value of C, each started from the one before."""
    model = KernelSVC(warm_start=True, **parameters)
    return [copy.copy(model.set_params(C=C).fit(X, y)) for C in values]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("cache_size", [100.0, 0.5])
def test_machines_are_those_of_each_value_alone(intercept, cache_size):
    X, y = ring()
    options = {"fit_intercept": intercept, "gamma": 0.5, "tol": 1e-7, "dtype": "float64"}
    models = warm_machines(X, y, VALUES, cache_size=cache_size, **options)
    for C, model in zip(VALUES, models, strict=True):
        alone = KernelSVC(C=C, **options).fit(X, y)
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-8)
        np.testing.assert_allclose(
            model.decision_function(X), alone.decision_function(X), atol=1e-4
        )
        assert model.get_params()["C"] == C


@pytest.mark.parametrize("spent", ["n_iter_", "kernel_entries_"])
def test_warm_starts_take_fewer_steps_and_kernel_values(spent):
    X, y = ring(1500)
    values = [1.0, 2.0, 4.0]
    models = warm_machines(X, y, values, gamma=0.5)
    alone = [KernelSVC(C=C, gamma=0.5).fit(X, y) for C in values]
    warm, cold = ([getattr(m, spent) for m in some] for some in (models, alone))
    assert warm[0] == cold[0]
    assert all(np.less(warm[1:], cold[1:]))


@pytest.mark.parametrize("change", ["gamma", "rows"])
def test_the_gradient_of_one_kernel_matrix_is_not_used_with_another(change):
    X, y = ring(500)
    machine = KernelSVC(gamma=0.5, warm_start=True).fit(X, y)
    gamma, X = (1.0, X) if change == "gamma" else (0.5, X[:, ::-1] * [1.0, 2.0])
    machine.set_params(gamma=gamma).fit(X, y)
    cold = KernelSVC(gamma=gamma, tol=1e-6).fit(X, y)
    assert machine.violation_ <= 1e-3
    assert machine.objective_ == pytest.approx(cold.objective_, rel=1e-5)


def test_a_stricter_tolerance_continues_from_the_last_fit():
    X, y = ring(1500)
    machine = KernelSVC(gamma=0.5, warm_start=True).fit(X, y)
    machine.set_params(tol=1e-8).fit(X, y)
    cold = KernelSVC(gamma=0.5, tol=1e-8).fit(X, y)
    assert machine.violation_ <= 1e-8
    assert machine.objective_ == pytest.approx(cold.objective_, rel=1e-12)
    assert machine.kernel_entries_ < cold.kernel_entries_
    assert machine.n_iter_ < cold.n_iter_


def test_a_start_of_other_labels_or_weights_is_left_alone():
    X, y = ring()
    machine = KernelSVC(gamma=0.5, warm_start=True)
    for labels, weights in ((y, None), (y[::-1], None), (y[::-1], np.linspace(0.1, 2, len(y)))):
        again = machine.fit(X, labels, sample_weight=weights)
        cold = KernelSVC(gamma=0.5).fit(X, labels, sample_weight=weights)
        assert (again.n_iter_, again.objective_) == (cold.n_iter_, cold.objective_)
