"""CascadeSVC: one part is the exact machine, and feedback leads to it."""

import itertools

import numpy as np
import pytest
from dual_problem import coefficients
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from small_problems import ring

from kbench.methods import CascadeSVC, KernelSVC
from kbench.trace import Trace

EXACT = {"gamma": 0.5, "tol": 1e-8, "dtype": "float64"}


@pytest.mark.parametrize("n_parts", [2, 5, 8])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_feedback_leads_to_the_exact_machine(n_parts, C):
    X, y = ring()
    exact = KernelSVC(fit_intercept=False, C=C, **EXACT).fit(X, y)
    objectives = [
        CascadeSVC(n_parts, feedback=rounds, C=C, random_state=1, **EXACT).fit(X, y).objective_
        for rounds in (0, 1, 2)
    ]
    assert np.all(np.diff(objectives) <= 1e-9)
    model = CascadeSVC(n_parts, feedback=100, C=C, random_state=1, **EXACT).fit(X, y)
    assert model.n_rounds_ < 100
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-8)
    Q = rbf_kernel(X, gamma=0.5) * np.outer(y, y)
    alpha = np.abs(coefficients(model, len(y)))
    gradient = Q @ alpha - 1
    assert np.all(gradient[alpha == 0] >= -1e-7)
    assert np.all(gradient[alpha == C] <= 1e-7)


def test_the_solution_is_that_of_the_last_merge():
    X, y = ring()
    states = []
    model = CascadeSVC(8, random_state=0, **EXACT)
    model.fit(X, y, trace=Trace(lambda seconds, state: states.append(state)))
    assert [state["n_parts"] for state in states] == [8, 4, 2, 1]
    supports = [set(np.flatnonzero(state["alpha"])) for state in states]
    assert all(later <= earlier for earlier, later in itertools.pairwise(supports))
    rows = np.array(sorted(supports[-2]))
    alone = KernelSVC(fit_intercept=False, **EXACT).fit(X[rows], y[rows])
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-8)
    assert model.n_rounds_ == 1


def test_feedback_brings_back_what_parts_lose_where_most_support_vectors_are_bounded():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(3000) < 0.25, 1, -1)
    X = rng.normal(size=(3000, 5)) + 0.6 * y[:, None]
    exact = KernelSVC(fit_intercept=False, gamma=0.03).fit(X, y)
    assert (np.abs(exact.dual_coef_) == 1.0).mean() > 0.9
    share = [
        CascadeSVC(32, feedback=rounds, gamma=0.03, random_state=0).fit(X, y).objective_
        / exact.objective_
        for rounds in (0, 1, 20)
    ]
    assert share[0] < 0.998
    assert share[1] > 0.9995
    assert share[2] == pytest.approx(1.0, abs=1e-6)


def test_feedback_without_violators_costs_one_look_at_every_row():
    X, y = ring()
    alone, model = (CascadeSVC(1, feedback=feedback, **EXACT).fit(X, y) for feedback in (0, 9))
    assert model.n_rounds_ == 1
    assert model.kernel_entries_ == alone.kernel_entries_ + len(y) * len(model.support_)


def test_several_classes_share_the_parts():
    X, y = load_iris(return_X_y=True)
    model = CascadeSVC(4, C=10.0, gamma=0.5, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.96
    model = CascadeSVC(4, C=10.0, feedback=50, random_state=0, **EXACT).fit(X, y)
    exact = KernelSVC(fit_intercept=False, multi_class="ovr", C=10.0, **EXACT).fit(X, y)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-7)


def test_n_iter_is_the_sum_over_all_parts():
    X, y = ring()
    two = CascadeSVC(2, random_state=0, **EXACT).fit(X, y)
    halves = np.array_split(np.random.RandomState(0).permutation(len(y)), 2)
    machines = [
        KernelSVC(fit_intercept=False, **EXACT).fit(X[rows], y[rows])
        for rows in map(np.sort, halves)
    ]
    first_layer = sum(machine.n_iter_ for machine in machines)
    assert two.n_iter_ > first_layer
