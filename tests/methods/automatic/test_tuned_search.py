"""Which rows the search of many rows measures, by a task whose errors are a formula."""

import numpy as np
import pytest

from kbench.methods import TunedKernelSVC
from kbench.trace import Deadline, Trace
from kbench.width_search.gram import Rows
from kbench.width_search.search import FirstRung, Search, _plan, search
from kbench.width_search.tasks import Classification, Losses, Regression

N, N_CELL = 17_000, 1600
OPTIMUM = 1.0, 3.0  # log2 of gamma in units of the median distance, log2 C


class Formula:
    """Errors of a bowl around the optimum; those of cells may be constant."""

    worst, scale_of_c, most_rows, last_rungs = 0.5, 1.0, 8000, (4, 3)
    steps, unsolved_deviation = 25, 0.2

    def __init__(self, unit, flat_cells):
        self.unit, self.flat_cells, self.cells = unit, flat_cells, []

    def order(self, rng):
        return rng.permutation(N)

    def adapt(self, error):
        pass

    def arranged(self, training):
        return training

    def constant_losses(self, training, validation):
        return None

    def losses(self, gram, gamma, Cs, training, validation, max_steps):
        bowl = (np.log2(gamma / self.unit) - OPTIMUM[0]) ** 2 + (np.log2(Cs) - OPTIMUM[1]) ** 2
        errors = 0.1 * 2.0 ** np.minimum(bowl / 8, 2)
        if len(training) == N_CELL:
            self.cells.append(tuple(validation))
            if self.flat_cells:
                errors[:] = 0.02
        wrong = errors * len(validation)
        sums = np.column_stack([wrong, wrong, np.full(len(Cs), len(validation))])
        return Losses(sums, np.ones(len(Cs), bool), np.full(len(Cs), 0.5))


class AfterRungs:
    """A deadline that passes once this many rungs have been measured."""

    def __init__(self, rungs):
        self.left = rungs

    @property
    def passed(self):
        self.left -= 1
        return self.left <= 0


def found(flat_cells, entries=np.inf, rungs=np.inf):
    rng = np.random.default_rng(0)
    rows = Rows(rng.standard_normal((N, 2)), "rbf", rng)
    task = Formula(rows.unit, flat_cells)
    result = search(rows, task, rng, AfterRungs(rungs), Trace(), None, entries)
    numbers = np.array(result.columns["rung"])
    kinds = np.array(result.columns["rows"])
    first = np.unique(numbers, return_index=True)[1]
    chosen = np.log2(result.gamma / rows.unit), np.log2(result.C)
    return result, task, kinds[first].tolist(), chosen


def test_where_the_errors_of_cells_are_constant_samples_decide(monkeypatch):
    monkeypatch.setattr("kbench.width_search.search._WIDE", 0.0)  # whatever widths are proposed
    result, _, kinds, chosen = found(flat_cells=True)
    assert result.flat_cells
    assert kinds == ["sample", "cell", "sample", "sample"]
    np.testing.assert_allclose(chosen, OPTIMUM, atol=0.75)
    # The estimated error is that of a sample, not that of a cell.
    assert result.error == pytest.approx(0.1, rel=0.1)


def test_other_cells_come_last_where_no_larger_machines_are_compared():
    result, task, kinds, chosen = found(flat_cells=False, entries=0.4 * N**2)
    assert not result.flat_cells
    assert result.is_dear
    assert kinds == ["sample", "cell", "cell", "sample", "cell", "cell"]
    np.testing.assert_allclose(chosen, OPTIMUM, atol=0.75)
    assert result.error == pytest.approx(0.1, rel=0.1)
    # Their rows are drawn again, so that the earlier choice among cells does not flatter them.
    cells = list(dict.fromkeys(task.cells))
    rows_of_last = result.columns["n_validation"][-1] // len(cells[0])
    assert len(cells) > 2 * rows_of_last >= 32


def test_the_second_last_cells_lie_around_the_minimum_that_the_first_ones_correct(monkeypatch):
    # One cell in the middle of the range and one sample leave the minimum uncertain.
    monkeypatch.setattr("kbench.width_search.search._CELL_COUNTS", (1,))
    monkeypatch.setattr("kbench.width_search.search._SAMPLE_COUNT", 1)
    result, task, kinds, chosen = found(flat_cells=False, entries=0.4 * N**2)
    assert kinds == ["sample", "cell", "sample", "cell", "cell"]
    distances = []
    for rung in (3, 4):
        of_rung = np.equal(result.columns["rung"], rung)
        us = np.log2(np.array(result.columns["gamma"])[of_rung] / task.unit)
        vs = np.log2(np.array(result.columns["C"])[of_rung])
        assert len(us) == 6
        distances.append(np.hypot(np.median(us) - OPTIMUM[0], np.median(vs) - OPTIMUM[1]))
    distances.append(np.hypot(chosen[0] - OPTIMUM[0], chosen[1] - OPTIMUM[1]))
    assert distances[0] > distances[1] >= distances[2], distances


def test_a_deadline_after_cells_that_tell_nothing_leaves_the_first_rungs_minimum(monkeypatch):
    monkeypatch.setattr("kbench.width_search.search._WIDE", 0.0)
    result, _, kinds, chosen = found(flat_cells=True, rungs=2)
    assert result.flat_cells
    assert kinds == ["sample", "cell"]
    np.testing.assert_allclose(chosen, OPTIMUM, atol=1.5)
    # The error is that of the grid, not that of cells.
    assert result.error == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize(("of_classes", "points", "k"), [(True, 2, 5), (False, 4, 3)])
def test_the_last_rung_of_few_rows_is_all_folds(of_classes, points, k):
    n, rng = 2000, np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    task = Regression(X[:, 0], 0.05)
    if of_classes:
        task = Classification((X[:, 0] > 0).astype(int), 2, balanced=False)
    rows = Rows(X, "rbf", rng)
    *_, halves, folds = _plan(rows, FirstRung(rows, task, task.order(rng)), rng, task)
    assert (halves.kind, halves.count, len(halves.pairs)) == ("sample", points, 2)
    assert (folds.kind, len(folds.pairs)) == ("fold", k)
    validated = np.concatenate([validation for _, validation in folds.pairs])
    np.testing.assert_array_equal(np.sort(validated), np.arange(n))


def test_larger_machines_are_not_compared_after_last_cells():
    # The last cells may choose a machine of fewer support vectors that would be cheap to compare,
    # but samples prefer a smaller C than all rows do.
    X = np.random.default_rng(0).standard_normal((N, 2))
    index = (X[:, 0] > 0).astype(int)
    task = Classification(index, 2, balanced=False)
    result = Search(C=8.0, support_fraction=0.001, is_dear=True)
    arguments = np.random.default_rng(0), Deadline(None, Trace()), Trace()
    TunedKernelSVC()._smoother_by_larger_machines(X, task, index, result, *arguments)
    assert result == Search(C=8.0, support_fraction=0.001, is_dear=True, error=result.error)
