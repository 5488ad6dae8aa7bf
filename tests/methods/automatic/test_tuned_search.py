"""Which rows the search of many rows measures, by a task whose errors are a formula."""

import dataclasses
import itertools

import numpy as np
import pytest

from kbench.methods.automatic.smoother_models import smooth_by_larger_models
from kbench.trace import Deadline, Trace
from kbench.width_search import constants
from kbench.width_search.gram import PreparedRows
from kbench.width_search.rungs import SearchPoint, folds_or_samples, measure
from kbench.width_search.search import WidthSearchResult, search
from kbench.width_search.tasks import Classification, Losses

N, N_LOCAL = 17_000, 1600
OPTIMUM = 1.0, 3.0  # log2 of gamma in units of the median distance, log2 C


class Formula:
    """Errors of a bowl around the optimum; those of neighbourhoods may be constant."""

    constant_error, scale_of_c, last_rung_values, steps_per_row = (
        0.5,
        1.0,
        constants.LAST_VALUES,
        25,
    )
    subproblem_factor = 1.0

    def __init__(self, unit, flat_neighbourhoods):
        self.unit, self.flat_neighbourhoods, self.validated = unit, flat_neighbourhoods, []

    def order(self, rng):
        return rng.permutation(N)

    def adapt(self, error):
        pass

    def subproblems(self, rows, training, validation):
        return [(training, validation)]

    def arranged(self, training):
        return training

    def constant_losses(self, training, validation):
        return None

    def losses(self, gram, gamma, Cs, training, validation, max_steps, deadline):
        bowl = (np.log2(gamma / self.unit) - OPTIMUM[0]) ** 2 + (np.log2(Cs) - OPTIMUM[1]) ** 2
        errors = 0.1 * 2.0 ** np.minimum(bowl / 8, 2)
        if len(training) == N_LOCAL:
            self.validated.append(tuple(validation))
            if self.flat_neighbourhoods:
                errors[:] = 0.02
        wrong = errors * len(validation)
        sums = np.column_stack([wrong, wrong, np.full(len(Cs), len(validation))])
        return Losses(sums, np.ones(len(Cs), bool), np.full(len(Cs), 0.5), np.ones(len(Cs)))


class AfterRungs:
    """A deadline that passes once this many rungs have been measured."""

    def __init__(self, rungs):
        self.left = rungs

    def seconds_left(self):
        return None

    @property
    def passed(self):
        self.left -= 1
        return self.left <= 0


def found(flat_neighbourhoods, entries=np.inf, rungs=np.inf):
    rng = np.random.default_rng(0)
    rows = PreparedRows(rng.standard_normal((N, 2)), "rbf", rng)
    task = Formula(rows.unit, flat_neighbourhoods)
    result = search(rows, task, rng, AfterRungs(rungs), Trace(), None, entries)
    numbers = np.array(result.columns["rung"])
    kinds = np.array(result.columns["rows"])
    first = np.unique(numbers, return_index=True)[1]
    chosen = np.log2(result.gamma / rows.unit), np.log2(result.C)
    return result, task, kinds[first].tolist(), chosen


def test_where_the_errors_of_neighbourhoods_are_constant_samples_decide(monkeypatch):
    monkeypatch.setattr(constants, "FLAT_OCTAVES", 0.0)  # whatever widths are proposed
    result, _, kinds, chosen = found(flat_neighbourhoods=True)
    assert result.flat_neighbourhoods
    assert kinds == ["sample", "cell", "sample", "sample"]
    np.testing.assert_allclose(chosen, OPTIMUM, atol=0.75)
    # The estimated error is that of a sample, not that of a neighbourhood.
    assert result.error == pytest.approx(0.1, rel=0.1)


def test_other_neighbourhoods_come_last_where_no_larger_models_are_compared():
    result, task, kinds, chosen = found(flat_neighbourhoods=False, entries=0.4 * N**2)
    assert not result.flat_neighbourhoods
    assert result.ends_with_neighbourhoods
    # A rung in which no point is expected to improve is left out.
    assert [kind for kind, _ in itertools.groupby(kinds)] == ["sample", "cell", "sample", "cell"]
    np.testing.assert_allclose(chosen, OPTIMUM, atol=0.75)
    assert result.error == pytest.approx(0.1, rel=0.1)
    # Their rows are drawn again: the earlier choice among neighbourhoods does not flatter them.
    validated = list(dict.fromkeys(task.validated))
    rows_of_last = result.columns["n_validation"][-1] // len(validated[0])
    assert len(validated) >= 2 * rows_of_last >= 32


def test_a_deadline_after_flat_neighbourhoods_leaves_the_first_rungs_minimum(monkeypatch):
    monkeypatch.setattr(constants, "FLAT_OCTAVES", 0.0)
    result, _, kinds, chosen = found(flat_neighbourhoods=True, rungs=2)
    assert result.flat_neighbourhoods
    assert kinds == ["sample", "cell"]
    np.testing.assert_allclose(chosen, OPTIMUM, atol=1.5)
    # The error is that of the grid, not that of neighbourhoods.
    assert result.error == pytest.approx(0.1, rel=0.2)


def test_a_rung_that_a_deadline_cuts_does_not_move_the_answer_to_the_point_it_has(monkeypatch):
    """The order of the points decides which one is left, not its error."""

    def cut(rows, task, rung, points, *limits):
        measured = measure(rows, task, rung, points, *limits)
        return [measured[0], None] if rung.is_local else measured

    far = [SearchPoint(OPTIMUM[0], OPTIMUM[1] + 8.0), SearchPoint(*OPTIMUM)]
    monkeypatch.setattr("kbench.width_search.search._points_to_measure", lambda *_: far)
    monkeypatch.setattr("kbench.width_search.search.measure", cut)
    result, _, kinds, chosen = found(flat_neighbourhoods=False, rungs=2)
    assert kinds == ["sample", "cell"]
    np.testing.assert_allclose(chosen, OPTIMUM, atol=1.5)
    assert result.error == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("n", [3, 200, 809, 810, 1254, 1255, 2048, 2049, 5000])
def test_a_rung_has_the_most_folds_that_its_kernel_values_pay_for(n):
    order, values = np.random.default_rng(0).permutation(n), 2**21
    rung = folds_or_samples(order, values, 10)
    spent = sum(len(training) ** 2 for training, _ in rung.pairs)
    assert spent <= 1.001 * values + 2 * n
    validated = np.concatenate([validation for _, validation in rung.pairs])
    for training, validation in rung.pairs:
        assert len(np.intersect1d(training, validation)) == 0
    if rung.kind == "fold":
        np.testing.assert_array_equal(np.sort(validated), np.arange(n))
        more = [k for k in constants.FOLDS if k > len(rung.pairs)]
        assert all(n**2 * (k - 1) ** 2 / k > values for k in more) or len(rung.pairs) == n
    else:
        assert n**2 / 2 > values
        assert spent > 0.99 * values


def test_larger_models_are_not_compared_after_last_neighbourhoods():
    # The last neighbourhoods may choose a model of fewer support vectors that would be cheap to
    # compare, but samples prefer a smaller C than all rows do.
    X = np.random.default_rng(0).standard_normal((N, 2))
    index = (X[:, 0] > 0).astype(int)
    task = Classification(index, 2, balanced=False)
    result = WidthSearchResult(C=8.0, support_fraction=0.001, ends_with_neighbourhoods=True)
    arguments = np.random.default_rng(0), Deadline(None, Trace()), Trace()
    smooth_by_larger_models(X, task, index, "rbf", result, *arguments)
    expected = WidthSearchResult(C=8.0, support_fraction=0.001, ends_with_neighbourhoods=True)
    # Fields are compared alone: `error` is nan, and Python 3.13 compares it by value.
    np.testing.assert_equal(dataclasses.asdict(result), dataclasses.asdict(expected))
