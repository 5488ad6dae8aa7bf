"""A time budget bounds the whole fit: on a clock that counts work, not seconds.

The clock goes on by what a stage costs: eigendecompositions and factorisations by the cube of their
rows, machines of the search and exact ones by the square, pairs of classes one by one. So a test
sees what an estimator decides to do, whatever else the computer does.
"""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kbench.methods import (
    KernelRidge,
    KernelSVC,
    KernelSVR,
    TunedKernelRidge,
    TunedKernelSVC,
    TunedKernelSVR,
)
from kbench.methods.approximate.falkon import FalkonRegressor
from kbench.methods.automatic import final_fit
from kbench.methods.divide.dc_svc import DCSVC
from kbench.solvers.small.steps import STEPS
from kbench.trace import Trace
from kbench.width_search import c_path, leave_one_out

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Clock(Trace):
    """A trace whose clock goes on by the work that it is told of."""

    seconds = 0.0

    def wall_s(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    """A clock that the stages of search and final fit turn on."""
    clock = Clock()

    def counted(module, name, cost):
        function = getattr(module, name)

        def wrapper(*arguments, **options):
            clock.seconds += cost(*arguments)
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, wrapper)

    descend = c_path.descend

    def stepped(*arguments):
        values, report = arguments[-10], arguments[-1]
        before = report[STEPS]
        status = descend(*arguments)
        # A microsecond for a step of a problem of a thousand rows.
        clock.seconds += 1e-9 * values.shape[1] * (1.0 + report[STEPS] - before)
        return status

    monkeypatch.setattr(c_path, "descend", stepped)
    counted(leave_one_out, "errors_by_ridge", lambda K, *_: 9e-10 * len(K) ** 3)
    counted(leave_one_out, "errors_of_one_ridge", lambda K, *_: 1e-10 * len(K) ** 3)

    def fit(cls, cost):
        function = cls.fit

        def wrapper(self, X, y, *arguments, **options):
            limit = np.inf if self.max_time is None else self.max_time
            clock.seconds += min(cost(self, len(y)), limit)
            return function(self.set_params(max_time=None), X, y, *arguments, **options)

        monkeypatch.setattr(cls, "fit", wrapper)

    for cls in (KernelSVC, KernelSVR, DCSVC):
        fit(cls, lambda _, n: 1e-7 * n**2)
    fit(KernelRidge, lambda _, n: 1e-10 / 3 * n**3)
    fit(FalkonRegressor, lambda self, n: 1e-10 * (13 * self.n_components**3 + 90 * n))
    return clock


def rows(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    if kind == "classes":
        return X, (f > 0.0).astype(int)
    if kind == "many classes":
        return X, np.argsort(np.argsort(f)) * 30 // n
    return X, f + 0.1 * rng.normal(size=n)


CASES = [
    (TunedKernelSVC, "classes"),
    (TunedKernelSVC, "many classes"),
    (TunedKernelSVR, "numbers"),
    (TunedKernelRidge, "numbers"),
]


@pytest.mark.parametrize(("cls", "kind"), CASES)
@pytest.mark.parametrize("budget", [0.01, 0.1, 1.0])
def test_a_fit_ends_within_its_budget(cls, kind, budget, clock):
    X, y = rows(kind, 1500)
    model = cls(time_budget=budget, random_state=0).fit(X, y, trace=clock)
    # A stage that has begun ends: one problem, or the pilot of a hundred rows.
    assert 0.0 < clock.seconds <= 1.1 * budget + 2e-3
    assert np.isfinite(model.predict(X[:5].copy()).astype(float)).all()


@pytest.mark.parametrize(("cls", "kind"), CASES)
def test_a_larger_budget_is_used(cls, kind, clock):
    X, y = rows(kind, 1500)
    small = cls(time_budget=0.1, random_state=0).fit(X, y, trace=clock)
    spent, clock.seconds = clock.seconds, 0.0
    large = cls(time_budget=1.0, random_state=0).fit(X, y, trace=clock)
    assert sum(large.search_results_["n_rows"]) > sum(small.search_results_["n_rows"])
    assert clock.seconds > spent


@pytest.mark.parametrize("cls", [TunedKernelSVC, TunedKernelSVR])
def test_a_final_fit_that_was_stopped_is_kept_only_if_it_is_better(cls, monkeypatch):
    X, y = rows("classes" if cls is TunedKernelSVC else "numbers", 600)
    exact = KernelSVC if cls is TunedKernelSVC else KernelSVR
    function = exact.fit
    sizes = []

    def ruined(self, X, y, *arguments, **options):
        model = function(self, X, y, *arguments, **options)
        sizes.append(len(y))
        if len(y) > 500:
            model.converged_ = False
            predict = exact.predict
            model.predict = lambda X: np.roll(predict(model, X), 1)
        return model

    monkeypatch.setattr(exact, "fit", ruined)
    monkeypatch.setattr(final_fit.FinalFit, "_may_stop", lambda *_: True)
    model = cls(time_budget=1e6, random_state=0).fit(X, y)
    assert max(sizes) == 540  # a tenth is held out
    assert "final fit to 540 rows was stopped" in model.reason_
    assert model.best_estimator_.shape_fit_[0] < 500
    assert model.best_estimator_.converged_
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("cls", [TunedKernelSVC, TunedKernelSVR])
def test_a_stopped_fit_that_is_as_good_as_the_search_costs_no_other_model(cls, monkeypatch):
    X, y = rows("classes" if cls is TunedKernelSVC else "numbers", 600)
    exact = KernelSVC if cls is TunedKernelSVC else KernelSVR
    function, sizes = exact.fit, []

    def stopped(self, X, y, *arguments, **options):
        model = function(self, X, y, *arguments, **options)
        sizes.append(len(y))
        model.converged_ = False
        return model

    monkeypatch.setattr(exact, "fit", stopped)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model = cls(metric=None, random_state=0).fit(X, y)
    assert sizes == [600]
    assert model.best_estimator_.shape_fit_[0] == 600
