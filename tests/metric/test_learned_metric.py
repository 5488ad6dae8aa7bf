"""The learned metric: gradients against finite differences, planes that are recovered, invariances,
bad columns."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from kbench.kernels import KernelMatrix
from kbench.kernels.named import make_kernel
from kbench.methods import KernelSVC
from kbench.metric import LearnedMetric, WithMetric
from kbench.metric.columns import ColumnMap
from kbench.metric.gradients import gradient_outer_product, squared_gradients
from kbench.metric.ridge_problem import Standardised
from kbench.metric.warp import warp_of_gradients
from kbench.solvers.ridge.kernel_ridge import shifted_cholesky
from kbench.trace import Trace


def naive_value(kernel, gamma, x, Z, coef):
    if kernel == "laplacian":
        return np.exp(-gamma * np.abs(x - Z).sum(axis=1)) @ coef
    r = np.linalg.norm(x - Z, axis=1)
    return np.exp(-gamma * (r if kernel == "matern12" else r**2)) @ coef


@pytest.mark.parametrize("kernel", ["matern12", "rbf", "laplacian"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_gradients_agree_with_finite_differences(kernel, n_outputs):
    rng = np.random.default_rng(0)
    Z, coef, gamma = rng.normal(size=(40, 4)), rng.normal(size=(40, n_outputs)), 0.7
    rows, step = np.arange(0, 40, 5), 1e-6
    expected = np.zeros((4, 4))
    for row in rows:
        # The kernel value of a row with itself has no gradient, so the row is left out of the sum.
        others = np.delete(np.arange(40), row)
        for output in coef.T:
            gradient = np.array(
                [
                    naive_value(kernel, gamma, Z[row] + e, Z[others], output[others])
                    - naive_value(kernel, gamma, Z[row] - e, Z[others], output[others])
                    for e in step * np.eye(4)
                ]
            ) / (2 * step)
            expected += np.outer(gradient, gradient)
    matrix = KernelMatrix(make_kernel(kernel, Z, gamma=gamma), Z, np.float64)
    for values in (None, matrix.block(rows)):
        found = gradient_outer_product(matrix, Z, coef, rows, values=values)
        np.testing.assert_allclose(found, expected / len(rows), rtol=1e-5)
    squares = squared_gradients(matrix, Z, coef, rows)
    np.testing.assert_allclose(squares.mean(axis=0), found.diagonal(), rtol=1e-5)


def test_a_function_of_a_plane_recovers_the_plane():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    plane = np.linalg.qr(rng.normal(size=(30, 2)))[0]
    target = np.sin(X @ plane[:, 0]) + np.tanh(X @ plane[:, 1])
    metric = LearnedMetric("full", n_rounds=4, rank=2, random_state=0).fit(X, target)
    assert metric.transform(X[:5]).shape == (5, 2)
    assert subspace_angles(metric.components_, plane).max() < 1e-2


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 6))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


def pairwise(Z):
    return np.linalg.norm(Z[:20, None] - Z[None, :20], axis=2)


def test_a_diagonal_metric_does_not_depend_on_the_units_of_features(problem):
    X, y = problem
    units = np.array([1e-3, 1.0, 10.0, 1e4, 0.5, 7.0])
    metric = LearnedMetric("diagonal", random_state=0)
    plain, scaled = metric.fit_transform(X, y), metric.fit(X * units, y).transform(X * units)
    np.testing.assert_allclose(pairwise(plain), pairwise(scaled), rtol=1e-3, atol=1e-6)


def test_a_full_metric_does_not_depend_on_rotations(problem):
    X, y = problem
    X = np.linalg.qr(X - X.mean(axis=0))[0] * np.sqrt(len(X))  # standardising changes nothing then
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))[0]
    options = {"kernel": "rbf", "n_rounds": 2, "validation_fraction": 0.01, "random_state": 0}
    plain = LearnedMetric("full", **options).fit(X, y)
    turned = LearnedMetric("full", **options).fit(X @ turn, y)
    assert plain.n_rounds_ == turned.n_rounds_
    np.testing.assert_allclose(
        pairwise(plain.transform(X)), pairwise(turned.transform(X @ turn)), rtol=0.05, atol=1e-3
    )


def test_columns_that_say_nothing_are_harmless(problem):
    X, y = problem
    constant, copy, combination = np.full(500, 3.0), X[:, 0], X[:, 0] + X[:, 1]
    metric = LearnedMetric(random_state=0).fit(np.column_stack([X, constant, copy, combination]), y)
    assert np.isfinite(metric.components_).all()
    assert metric.feature_importances_[6] == 0.0
    assert min(score["error"] for score in metric.scores_) < 0.2


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_constant_whose_mean_is_rounded_becomes_0(form):
    rows = form(np.column_stack([np.full(1000, 0.1), np.linspace(0.0, 1.0, 1000)]))
    empty = np.empty((0, 2))
    scaler = Standardised(ColumnMap(empty, empty), rows)
    assert scaler.deviation[0] == np.inf
    np.testing.assert_allclose(scaler(rows).std(axis=0), [0.0, 1.0])


def test_blocks_do_not_mix_features_of_different_groups(problem):
    X, y = problem
    groups = np.array([0, 0, 1, 1, 2, 2])
    metric = LearnedMetric(groups, random_state=0).fit(X, y).metric_
    assert np.all(metric[~np.equal.outer(groups, groups)] == 0.0)
    with pytest.raises(ValueError, match="structure has shape"):
        LearnedMetric([0, 1]).fit(X, y)


def test_transformed_rows_have_total_variance_one(problem):
    X, y = problem
    Z = LearnedMetric(random_state=0).fit_transform(X, y)
    assert Z.var(axis=0).sum() == pytest.approx(1.0, rel=0.1)


def test_a_target_of_noise_keeps_the_features_as_they_are():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(300, 4)), np.zeros(300)
    metric = LearnedMetric(task="regression", random_state=0).fit(X, y)
    assert metric.n_rounds_ == 0
    np.testing.assert_allclose(metric.feature_importances_, 0.25)


def test_many_features_are_weighted_without_a_square_of_them():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 4000)).astype(np.float32)
    metric = LearnedMetric(n_rounds=1, random_state=0).fit(X, X[:, 17])
    assert metric.structure_ == "diagonal"
    assert metric.nbytes_ <= 2 * 8 * 4000
    assert metric.transform(X[:3]).shape == (3, len(metric.get_feature_names_out()))


def test_a_diagonal_metric_is_its_components_and_its_weights(problem):
    X, y = problem
    metric = LearnedMetric("diagonal", rank=3, random_state=0).fit(X, y)
    assert metric.components_.shape == (6, 3)
    expected = (X - metric.mean_) @ metric.components_
    np.testing.assert_allclose(metric.transform(X), expected, atol=1e-12)
    off_diagonal = metric.metric_ - np.diag(metric.metric_.diagonal())
    np.testing.assert_array_equal(off_diagonal, 0.0)


def test_outliers_do_not_hide_what_the_other_rows_say():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(900, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    X[rng.random(X.shape) < 0.01] *= 1e4
    errors = {
        scaling: min(
            score["error"]
            for score in LearnedMetric(scaling=scaling, random_state=0).fit(X, y).scores_
        )
        for scaling in ("standard", "auto")
    }
    assert errors["auto"] < 0.95 * errors["standard"]


def test_integer_codes_get_indicators_where_their_order_says_nothing():
    rng = np.random.default_rng(10)
    codes, numbers = rng.integers(0, 12, 800), rng.normal(size=(800, 2))
    y = rng.normal(size=12)[codes] + numbers[:, 0]
    metric = LearnedMetric(scaling="auto", random_state=0).fit(np.column_stack([codes, numbers]), y)
    assert metric.scaling_.endswith("+indicators")
    assert metric.feature_importances_.shape == (3,)
    assert metric.feature_importances_[2] < 0.01
    assert metric.components_.shape[0] == 15
    ordered = LearnedMetric(scaling="auto", random_state=0).fit(numbers.round(1), numbers[:, 0])
    assert not ordered.scaling_.endswith("+indicators")


def test_thresholds_are_learnt_by_the_laplacian_kernel():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(1500, 5))
    y = (X[:, 0] > 0.3) * 1.0 + 2.0 * ((X[:, 1] > 0) & (X[:, 2] > 0))
    metric = LearnedMetric(kernel="any", random_state=0).fit(X, y)
    assert (metric.kernel_, metric.structure_) == ("laplacian", "diagonal")
    assert set(np.argsort(-metric.feature_importances_)[:3]) == {0, 1, 2}


def test_equal_gradients_warp_no_column():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=500), rng.integers(0, 2, 500), np.ones(500)])
    weights = np.array([2.0, 3.0, 5.0])
    warp = warp_of_gradients(X, np.ones(3), np.broadcast_to(weights**2, X.shape))
    expected = weights * (X - X.min(axis=0))
    np.testing.assert_allclose(warp(X), expected / np.sqrt(expected.var(axis=0).sum()), atol=1e-12)
    # Slopes of a map count once more.
    again = warp_of_gradients(X, warp, np.ones(X.shape))
    np.testing.assert_allclose(again(X), warp(X), atol=1e-12)
    assert warp_of_gradients(X, np.ones(3), np.zeros(X.shape)) is None


@pytest.mark.parametrize("scaling", ["standard", "quantile"])
def test_a_warped_column_rises_where_the_target_does(scaling):
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(-1.0, 1.0, (600, 2)), np.full(600, 7.0)])
    metric = LearnedMetric("warped", scaling=scaling, task="regression", random_state=0)
    Z = metric.fit(X, np.where(X[:, 0] > 0.3, 1.0, 0.0) + 0.1 * rng.normal(size=600)).transform(X)
    assert Z.var(axis=0).sum() == pytest.approx(1.0, rel=0.1)
    order, steep = np.argsort(X[:, 0]), int(Z.std(axis=0).argmax())
    rises = np.diff(Z[order, steep])
    assert (rises >= 0.0).all()
    near = np.abs(X[order[1:], 0] - 0.3) < 0.1
    assert rises[near].sum() > 0.8 * rises.sum()
    assert metric.feature_importances_[0] > 0.9
    assert metric.feature_importances_[2] == 0.0


@pytest.mark.parametrize("scaling", ["clipped", "quantile"])
def test_column_maps_keep_the_order_and_bound_the_values(scaling):
    rng = np.random.default_rng(12)
    X = np.column_stack([rng.standard_cauchy(400), rng.integers(0, 3, 400), np.full(400, 2.0)])
    mapped = ColumnMap.of(X, scaling)(X)
    assert np.isfinite(mapped).all()
    assert np.abs(mapped).max() < 4.0
    for before, after in zip(X.T, mapped.T, strict=True):
        assert (np.diff(after[np.argsort(before, kind="stable")]) >= 0.0).all()


@parametrize_with_checks(
    [
        LearnedMetric(random_state=0, n_rounds=1),
        LearnedMetric(random_state=0, n_rounds=1, kernel="any", scaling="auto"),
        LearnedMetric("warped", random_state=0, n_rounds=1),
    ]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_a_machine_behind_a_metric_tells_what_it_learnt():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(600, 10))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    trace = Trace()
    machine = WithMetric(KernelSVC(C=10.0), random_state=0).fit(X[:400], y[:400], trace=trace)
    plain = KernelSVC(C=10.0).fit(X[:400], y[:400])
    assert machine.score(X[400:], y[400:]) > plain.score(X[400:], y[400:]) + 0.05
    assert {"metric", "solve"} <= set(machine.timings_)
    assert machine.n_support_.sum() == len(machine.estimator_.support_)
    assert machine.n_features_in_ == 10
    values = machine.decision_function(X[400:])
    np.testing.assert_array_equal(machine.predict(X[400:]), (values > 0).astype(int))
    with pytest.raises(AttributeError, match="no_such_thing_"):
        _ = machine.no_such_thing_


def test_a_metric_in_front_of_a_pipeline_can_be_searched():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(200, 4))
    machine = WithMetric(Ridge(), LearnedMetric(n_rounds=1), random_state=0)
    grid = {"estimator__alpha": [0.1, 1.0], "metric__structure": ["diagonal", "full"]}
    search = GridSearchCV(machine, grid, cv=2).fit(X, X[:, 0])
    assert search.best_score_ > 0.9


def test_the_laplacian_kernel_weighs_128_of_many_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 140))
    y = np.sign(X[:, 5]) + np.sign(X[:, 90])
    options = {"kernel": "laplacian", "n_rounds": 2, "task": "regression", "random_state": 0}
    metric = LearnedMetric(**options).fit(X, y)
    assert metric.transform(X).shape == (400, 128)
    assert set(np.argsort(metric.feature_importances_)[-2:]) == {5, 90}
    assert np.count_nonzero(metric.feature_importances_) == 128


def test_fewer_rows_are_used_of_many_features():
    rng = np.random.default_rng(0)
    options = {"max_rows": 80, "search_rows": 40, "n_rounds": 1, "random_state": 0}
    rows = {}
    for d in (256, 1024, 4096):
        X = rng.normal(size=(150, d))
        metric = LearnedMetric("diagonal", kernel="rbf", **options).fit(X, X[:, 0])
        rows[d] = sorted({score["n_rows"] for score in metric.scores_})
    assert rows == {256: [40, 80], 1024: [40], 4096: [20]}


def scores_and_factorised(monkeypatch, **options):
    """Candidates of a fit, and the number of rows of every matrix that it factorised."""
    rows = []

    def counted(matrix, *args, **kwargs):
        rows.append(len(matrix))
        return shifted_cholesky(matrix, *args, **kwargs)

    monkeypatch.setattr("kbench.metric.ridge_problem.shifted_cholesky", counted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 8))
    y = np.sin(2.0 * X[:, 3]) + X[:, 1] * X[:, 2]
    sizes = {"max_rows": 400, "search_rows": 150, "random_state": 0}
    return LearnedMetric(**sizes, **options).fit(X, y).scores_, rows


def test_the_search_factorises_few_rows_and_full_size_a_few_matrices(monkeypatch):
    scores, rows = scores_and_factorised(monkeypatch, kernel="any")
    assert set(rows) == {150, 400}
    # Each of three kernels once, two rounds of two of them, two of the best, and two ridges.
    assert rows.count(400) <= 3 + 2 + 2 + 2
    of_full_size = [score for score in scores if score["n_rows"] == 400]
    searched = [score for score in scores if score["n_rows"] == 150]
    # Full size goes on with a metric of the search.
    assert {score["round"] for score in searched} == {0, 1, 2, 3}
    assert 0 not in {score["round"] for score in of_full_size}


def test_structures_share_the_model_before_a_metric_is_learned(monkeypatch):
    scores, rows = scores_and_factorised(monkeypatch, kernel="rbf", n_rounds=0, scaling="standard")
    alone = rows.copy()
    rows.clear()
    _, diagonal = scores_and_factorised(
        monkeypatch, kernel="rbf", n_rounds=0, scaling="standard", structure="diagonal"
    )
    assert alone == diagonal
    full, weights = (s["error"] for s in scores if s["n_rows"] == 150 and s["width"] == 1.0)
    assert full == weights


def test_a_round_that_gains_little_at_full_size_is_the_last(monkeypatch):
    scores, _ = scores_and_factorised(monkeypatch, kernel="rbf", structure="diagonal", n_rounds=12)
    of_full_size = [s for s in scores if s["n_rows"] == 400]
    of_full_size = [s for s in of_full_size if s["width"] == of_full_size[0]["width"]]
    errors = [s["error"] for s in of_full_size]
    assert 1 < len(errors) < 13
    assert all(after < 0.99 * before for before, after in itertools.pairwise(errors[:-1]))
    ridges = [s["ridge"] for s in of_full_size]
    assert ridges == sorted(ridges, reverse=True)


def test_a_kernel_that_few_rows_made_wide_may_become_narrower_at_full_size(monkeypatch):
    def widened(_, data, best, ridges):
        yield replace(best, width=2.0, error=0.0)

    monkeypatch.setattr("kbench.metric.rounds.Rounds.other_widths", widened)
    scores, _ = scores_and_factorised(monkeypatch, kernel="rbf", structure="diagonal")
    widths = [s["width"] for s in scores if s["n_rows"] == 400]
    assert len(widths) > 2
    assert widths == [2.0] * (len(widths) - 1) + [1.0]


def test_few_ridges_and_many_give_the_error_of_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(X[:, 0])
    options = {"n_rounds": 0, "kernel": "rbf", "structure": "diagonal", "random_state": 0}
    scores = LearnedMetric(**options).fit(X, y).scores_
    alone = LearnedMetric(ridge=scores[0]["ridge"], **options).fit(X, y).scores_
    assert alone[0]["error"] == pytest.approx(scores[0]["error"], rel=1e-5)
