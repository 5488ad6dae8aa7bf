"""Self-tuning estimators: how good the choice is, hostile data, probabilities."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from kbench.methods import (
    DCSVC,
    FalkonRegressor,
    KernelRidge,
    KernelSVC,
    KernelSVR,
    TunedKernelRidge,
    TunedKernelSVC,
    TunedKernelSVR,
)
from kbench.methods.automatic import self_tuning, smoother_models
from kbench.methods.automatic.self_tuning import improves, wilson_interval
from kbench.metric import LearnedMetric
from kbench.solvers.small.steps import descend
from kbench.trace import Deadline, Trace
from kbench.width_search import constants, search
from kbench.width_search.c_path import along_c, class_problem, regression_problem, stored
from kbench.width_search.gram import PreparedRows
from kbench.width_search.leave_one_out import RidgeSearch, errors_by_ridge, errors_of_one_ridge
from kbench.width_search.search import FirstRung, _plan
from kbench.width_search.surface import Surface
from kbench.width_search.tasks import Classification, Regression

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def moons(n, seed=0):
    return make_moons(n, noise=0.3, random_state=seed)


def gram(X, kernel="rbf"):
    rows = PreparedRows(X, kernel, np.random.default_rng(0))
    everything = np.arange(len(X))
    return rows, rows.gram(everything, everything)


def wave():
    """Rows (150, 2), noisy targets, and kernel values of gamma 0.5 between all rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=150)
    return X, y, gram(X)[1].matrix(0.5)


def test_a_machine_of_the_search_is_that_of_kernel_svc():
    X, y = moons(200)
    signs = np.where(y == 1, 1.0, -1.0)
    _, values = gram(X)
    machines = list(
        along_c(
            class_problem(values.kernel_rows(2.0), signs), [1.0, 8.0], tol=1e-4, max_steps=10**6
        )
    )
    for C, machine in zip([1.0, 8.0], machines, strict=True):
        exact = KernelSVC(C=C, gamma=2.0, tol=1e-4).fit(X, y)
        ours = values.matrix(2.0) @ machine.coef + machine.intercept
        assert machine.solved
        np.testing.assert_allclose(ours, exact.decision_function(X), atol=2e-3)


def test_a_machine_computes_only_the_rows_of_few_features_that_it_needs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    signs = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    _, values = gram(X)
    K = values.matrix(0.5).copy()
    few = values.kernel_rows(0.5)
    machines = [
        list(along_c(class_problem(kernel, signs), [1.0, 8.0], tol=1e-4, max_steps=10**6))
        for kernel in (few, stored(K))
    ]
    known = np.flatnonzero(few.slot >= 0)
    assert 0 < len(known) < 150
    np.testing.assert_allclose(few.rows[few.slot[known]], K[known], atol=2e-6)
    for first, second in zip(*machines, strict=True):
        np.testing.assert_allclose(K @ first.coef, K @ second.coef, atol=2e-3)


def test_a_regression_of_the_search_is_that_of_kernel_svr():
    X, y, K = wave()
    (machine,) = along_c(
        regression_problem(stored(K), y), [4.0], tol=1e-4, max_steps=10**6, epsilon=0.1
    )
    exact = KernelSVR(4.0, gamma=0.5, epsilon=0.1, tol=1e-4).fit(X, y)
    np.testing.assert_allclose(K @ machine.coef + machine.intercept, exact.predict(X), atol=2e-3)


def test_stopped_machines_on_the_way_to_the_first_c_change_no_solution(monkeypatch):
    _, y, K = wave()
    limits = []

    def counted(*arguments):
        limits.append(arguments[-3])
        return descend(*arguments)

    monkeypatch.setattr("kbench.width_search.c_path.descend", counted)
    options = {"tol": 1e-4, "max_steps": 10**6, "epsilon": 0.1}
    (machine,) = along_c(regression_problem(stored(K), y), [16.0], **options)
    (after_few,) = along_c(regression_problem(stored(K), y), [16.0], climb_steps=2, **options)
    assert limits[:4] == [10**6] * 4
    # Four values of C from 1/4 on; after a stop, the residual is summed without a step.
    assert [limit for limit in limits[4:] if limit] == [2, 2, 2, 10**6]
    assert machine.solved
    assert after_few.solved
    np.testing.assert_allclose(K @ after_few.coef, K @ machine.coef, atol=2e-3)


def test_narrower_tubes_that_start_from_wider_ones_have_the_same_solution():
    _, y, K = wave()
    problem = regression_problem(stored(K), y)
    options = {"tol": 1e-4, "max_steps": 10**6}
    machines = list(
        along_c(problem, [1.0, 4.0], epsilon=0.2, narrower_tubes=[0.1, 0.02], **options)
    )
    assert len(machines) == 4
    for machine, epsilon in zip(machines[1:], [0.2, 0.1, 0.02], strict=True):
        (alone,) = along_c(problem, [4.0], epsilon=epsilon, **options)
        assert machine.solved
        np.testing.assert_allclose(K @ machine.coef, K @ alone.coef, atol=2e-3)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_kernel_values_are_those_of_the_definition(kernel):
    X = np.random.default_rng(1).normal(size=(40, 3)) + 5.0
    _, values = gram(X, kernel)
    differences = X[:, None] - X
    distances = np.abs(differences).sum(-1) if kernel == "laplacian" else (differences**2).sum(-1)
    expected = np.exp(-0.3 * distances)
    np.testing.assert_allclose(values.matrix(0.3), expected, atol=2e-6)
    blocks = np.vstack([block for _, block in values.blocks(0.3, np.arange(5, 20))])
    np.testing.assert_allclose(blocks, expected[:, 5:20], atol=2e-6)


def test_no_kernel_value_of_the_search_is_a_denormal_number():
    X = np.random.default_rng(1).normal(size=(40, 3))
    _, values = gram(X)
    # Distances of about 1 to 20: most values are below the least normal number.
    (block,) = (block for _, block in values.blocks(60.0, np.arange(40)))
    assert min(values.matrix(60.0).min(), block.min()) >= np.finfo(np.float32).tiny


def test_the_nearest_rows_are_in_order_for_dense_and_sparse_rows():
    X = np.random.default_rng(2).normal(size=(60, 4))
    expected = np.argsort(((X - X[7]) ** 2).sum(axis=1))[:9]
    for rows in (X, sp.csr_array(X)):
        for kernel in ("rbf", "laplacian"):
            found = PreparedRows(rows, kernel, np.random.default_rng(0)).nearest(7, 9)
            np.testing.assert_array_equal(found, expected)


def test_the_surface_goes_through_exact_observations_and_proposes_near_the_minimum():
    u, v = (axis.ravel() for axis in np.meshgrid(np.arange(-4.0, 5, 2), np.arange(-4.0, 5, 2)))
    log_errors = 0.03 * ((u - 1) ** 2 + (v + 1) ** 2) - 2
    points = np.column_stack([u, v, 0 * u, 0 * u])
    surface = Surface(points, log_errors, np.zeros(len(u), int), np.zeros(len(u)))
    np.testing.assert_allclose(surface.mean(points), log_errors, atol=0.03)
    candidates = np.array([(a, b) for a in range(-4, 5) for b in range(-4, 5)], float)
    known = np.zeros(len(candidates), bool)
    best = surface.propose(candidates, (0.0, 0.0), (0.0, 0.0), 1, known)
    assert np.abs(best - [1, -1]).max() <= 1
    known = (candidates == best).all(axis=1)
    others = surface.propose(candidates, (0.0, 0.0), (0.0, 0.0), 4, known)
    assert not (others[:, None] == best).all(axis=2).any()


def test_the_surface_does_not_promise_a_good_corner_beside_a_steep_slope():
    # Errors of 900 and 5,000 rows of covtype. At (-6, -4) the error of 5,000 rows is 0.482; a
    # Gaussian covariance with lengths of 2.2 and 2.8 octaves expects 0.29 there.
    first = """
    .482 .481 .355 .335 .347 .422 .482
    .469 .348 .317 .305 .300 .299 .384
    .346 .318 .306 .268 .265 .280 .310
    .320 .310 .255 .250 .261 .288 .310
    .311 .255 .248 .255 .275 .297 .311
    .261 .246 .252 .267 .288 .300 .311
    .249 .245 .258 .280 .297 .300 .311
    """
    v, u = (axis.ravel() for axis in np.meshgrid(np.arange(-3.0, 10, 2), np.arange(-5.0, 8, 2)))
    table = np.array(first.split(), float).reshape(7, 7).T.ravel()
    later = np.array([(-6, 9), (-3, 8), (-1, 5), (0, 4), (1, 3), (1, 4), (2, 3)], float)
    errors = np.array([0.242, 0.2316, 0.2267, 0.221, 0.2186, 0.2116, 0.2152])
    points = np.vstack(
        [
            np.column_stack([u, v, np.full(49, -3.47), np.zeros(49)]),
            np.column_stack([later, np.full(7, -1.0), np.zeros(7)]),
        ]
    )
    log_errors = np.log(np.concatenate([table, errors]))
    deviations = np.repeat([0.006, 0.007], [49, 7])
    surface = Surface(points, log_errors, np.repeat([0, 1], [49, 7]), deviations)
    assert np.exp(surface.mean(np.array([(-6.0, -4.0, -1.0, 0.0)])))[0] >= 0.35


def test_the_choice_is_as_good_as_the_best_of_a_grid_within_its_noise():
    X, y = moons(400)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=3).split(X, y))

    def error(C, gamma):
        return np.mean(
            [1 - KernelSVC(C=C, gamma=gamma).fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds]
        )

    grid = [error(2.0**c, 2.0**g) for c in range(-2, 8, 2) for g in range(-4, 6, 2)]
    machine = TunedKernelSVC(random_state=0).fit(X, y)
    best = min(grid)
    assert error(machine.C_, machine.gamma_) <= best + 2 * np.sqrt(best * (1 - best) / len(y))
    low, high = machine.cv_error_interval_
    assert low <= machine.cv_error_ <= high


def test_the_estimated_error_holds_on_new_rows():
    machine = TunedKernelSVC(random_state=0).fit(*moons(500))
    X, y = moons(4000, seed=1)
    low, high = machine.cv_error_interval_
    assert low - 0.02 <= 1 - machine.score(X, y) <= high + 0.02


def test_the_search_results_are_columns_of_equal_length_with_the_final_parameters_inside():
    X, y = moons(300)
    states = []
    trace = Trace(lambda seconds, state: states.append(state))
    machine = TunedKernelSVC(random_state=0).fit(X, y, trace=trace)
    results = machine.search_results_
    assert len({len(column) for column in results.values()}) == 1
    assert results["gamma"].min() <= machine.gamma_ <= results["gamma"].max()
    errors = [state["validation_error"] for state in states if "validation_error" in state]
    np.testing.assert_array_equal(errors, results["error"])
    assert {"search", "fit"} <= machine.timings_.keys()
    assert "exact" in machine.reason_


def test_hostile_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 3))
    y = np.arange(10) % 2
    assert set(TunedKernelSVC(random_state=0).fit(X, y).predict(X)) <= {0, 1}
    assert TunedKernelSVC(random_state=0).fit(np.ones((10, 3)), y).predict(X).shape == (10,)
    rare = np.r_[np.zeros(39, int), 1]
    assert TunedKernelSVC(random_state=0).fit(rng.normal(size=(40, 2)), rare).C_ > 0
    with pytest.raises(ValueError, match="2 classes are needed"):
        TunedKernelSVC().fit(X, np.zeros(10))
    constant = TunedKernelSVR(random_state=0).fit(X, np.full(10, 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, atol=0.01)


def test_balanced_accuracy_serves_the_rare_class():
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.1).astype(int)
    X = rng.normal(size=(600, 2)) + 1.5 * y[:, None]
    balanced = TunedKernelSVC(scoring="balanced_accuracy", class_weight="balanced", random_state=0)
    assert 0.1 < balanced.fit(X, y).cv_error_ < 0.5


def test_probabilities_are_calibrated():
    X, y = moons(500)
    machine = TunedKernelSVC(probability=True, random_state=0).fit(X, y)
    new, truth = moons(2000, seed=1)
    P = machine.predict_proba(new)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert log_loss(truth, P) < 0.35
    assert abs(P[:, 1].mean() - truth.mean()) < 0.03


def test_a_learned_metric_is_kept_only_where_it_helps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 12))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    plain = TunedKernelSVC(metric=None, random_state=0).fit(X[:400], y[:400])
    learned = TunedKernelSVC(metric="auto", random_state=0).fit(X[:400], y[:400])
    assert learned.metric_ is not None
    assert learned.score(X[400:], y[400:]) > plain.score(X[400:], y[400:]) + 0.05
    assert TunedKernelSVC(metric="auto", random_state=0).fit(*moons(400)).metric_ is None


def test_a_time_budget_ends_the_search_early():
    X, y = moons(1000)
    machine = TunedKernelSVC(time_budget=1e-3, random_state=0).fit(X, y)
    assert set(machine.search_results_["rung"]) <= {0}
    low, high = machine.cv_error_interval_
    assert np.isnan(machine.cv_error_) or low <= machine.cv_error_ <= high


def test_no_metric_is_learned_in_a_budget_that_cannot_hold_it(monkeypatch):
    monkeypatch.setattr(LearnedMetric, "fit", lambda *_: pytest.fail("learned"))
    X, y = moons(300)
    machine = TunedKernelSVC(metric="auto", time_budget=2.0, random_state=0).fit(X, y)
    assert machine.metric_ is None


def test_an_improvement_counts_if_it_exceeds_the_noise_of_paired_differences():
    rng = np.random.default_rng(0)
    losses = rng.exponential(size=1000)
    assert improves(losses, 0.9 * losses)
    assert not improves(losses, 0.99 * losses)
    assert not improves(losses, losses)
    # One large error that vanishes lowers the mean by a third, and is one row of a thousand.
    with_outlier = np.append(losses, 500.0)
    assert not improves(with_outlier, np.append(losses, 0.0))


def test_large_regressions_are_searched_on_few_rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(10_000, 2)).astype(np.float32)
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    task = Regression(y, 0.05)
    rows = PreparedRows(X, "rbf", rng)
    unlimited = Deadline(None, Trace())
    first = FirstRung(rows, task, task.order(rng), unlimited, Trace())
    plan = _plan(rows, first, rng, task)
    # Two disjoint samples have half of the rung's kernel values each.
    values = [constants.GRID_VALUES, constants.SECOND_VALUES, task.last_rung_values]
    assert [rung.n_rows for rung in plan] == [int(np.sqrt(number / 2)) for number in values]
    for rung in plan:
        (first, held_out), (second, _) = rung.pairs
        assert len(np.intersect1d(first, second)) == len(np.intersect1d(first, held_out)) == 0


def test_the_tube_of_the_search_follows_the_errors_of_the_first_rung():
    y = np.random.default_rng(0).normal(size=100)
    wide, narrow = Regression(y, 0.05), Regression(y, 0.05)
    wide.adapt(0.25)
    narrow.adapt(1e-4)
    assert wide.epsilon == pytest.approx(0.15)
    assert narrow.epsilon == 0.05


@pytest.mark.parametrize("seed", range(4))
def test_the_tube_of_noisy_targets_has_the_size_of_the_noise(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(300, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=300)
    machine = TunedKernelSVR(metric=None, random_state=seed).fit(X, y)
    assert machine.epsilon_ >= 0.5 * np.sqrt(machine.cv_error_)


def test_regression_beats_wrong_widths_and_finds_the_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(800, 2))
    clean = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    y = 50.0 * (clean + 0.2 * rng.normal(size=800))
    machine = TunedKernelSVR(random_state=0).fit(X[:500], y[:500])
    rmse = np.sqrt(np.mean((machine.predict(X[500:]) - y[500:]) ** 2))
    assert rmse < 50.0 * 0.26
    assert 0.15 * 50 < np.sqrt(machine.cv_error_) < 0.3 * 50
    inner, scale = machine.best_estimator_, machine.target_scale_
    assert (inner.epsilon * scale, inner.C * scale) == pytest.approx((machine.epsilon_, machine.C_))


def test_wilsons_interval():
    low, high = wilson_interval(0.0, 100)
    assert low == 0.0
    assert 0.03 < high < 0.04


def test_leave_one_out_errors_are_those_of_machines_without_the_row():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    K = gram(X)[1].matrix(0.5).astype(np.float64)
    ours = errors_by_ridge(K, y, np.array([0.1, 2.0]))
    for j, alpha in enumerate([0.1, 2.0]):
        for i in (0, 7, 29):
            rest = np.delete(np.arange(30), i)
            coef = np.linalg.solve(K[np.ix_(rest, rest)] + alpha * np.eye(29), y[rest])
            assert ours[i, j] == pytest.approx(y[i] - K[i, rest] @ coef, abs=1e-6)
        # The factor is in float32, whose rounding is far below the ridge.
        errors, fraction = errors_of_one_ridge(K, y, alpha)
        np.testing.assert_allclose(errors, ours[:, j], atol=1e-4)
        dimension = np.trace(np.linalg.solve(K + alpha * np.eye(30), K))
        assert fraction == pytest.approx(dimension / 30, abs=1e-4)


def test_small_ridges_are_factorised_in_float64():
    X, y = np.random.default_rng(0).normal(size=(2, 30, 2))
    K = gram(X)[1].matrix(0.5).astype(np.float64) + 1e-6 * np.eye(30)
    alpha = 1e-7
    errors, _ = errors_of_one_ridge(K, y[:, 0], alpha)
    expected = errors_by_ridge(K, y[:, 0], np.array([alpha]))[:, 0]
    np.testing.assert_allclose(errors, expected, rtol=1e-6)


@pytest.mark.parametrize(("limit", "final"), [(0.6, FalkonRegressor), (0.0, KernelRidge)])
def test_many_rows_are_factorised_only_if_landmarks_cannot_span_the_model(
    monkeypatch, limit, final
):
    monkeypatch.setattr(constants, "RIDGE_ROWS", (60, 80, 120))
    monkeypatch.setattr(constants, "MAX_SMOOTH", 200)
    monkeypatch.setattr(constants, "LANDMARKS", (50, 100))
    monkeypatch.setattr(constants, "SMOOTH_FRACTION", limit)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    model = TunedKernelRidge(metric=None, random_state=0).fit(X, y)
    assert isinstance(model.best_estimator_, final), model.reason_
    if final is FalkonRegressor:
        assert 50 <= model.best_estimator_.dual_coef_.shape[0] <= 100
    assert model.score(X, y) > 0.9


def test_a_ridge_below_the_rounding_of_the_kernel_matrix_predicts_nothing():
    y = np.array([1.0, -2.0])
    indefinite = np.array([[1.0, 1.0 + 1e-7], [1.0 + 1e-7, 1.0]])
    errors, fraction = errors_of_one_ridge(indefinite, y, 1e-9)
    np.testing.assert_array_equal(errors, y)
    assert fraction == 1.0


def test_the_ridge_is_as_good_as_that_of_a_grid():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(1000, 2))
    y = 100 + np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=1000)
    machine = TunedKernelRidge(random_state=0).fit(X[:500], y[:500])
    rmse = np.sqrt(np.mean((machine.predict(X[500:]) - y[500:]) ** 2))
    mean = y[:500].mean()
    grid = [
        KernelRidge(2.0**a, kernel="rbf", gamma=2.0**g)
        .fit(X[:500], y[:500] - mean)
        .predict(X[500:])
        + mean
        for a in range(-10, 3, 4)
        for g in range(-5, 3, 2)
    ]
    best = min(np.sqrt(np.mean((values - y[500:]) ** 2)) for values in grid)
    assert rmse < 1.02 * best
    assert 0.03 < machine.cv_error_ < 0.06
    assert "exact" in machine.reason_


@pytest.mark.parametrize("cls", [TunedKernelSVC, TunedKernelSVR, TunedKernelRidge])
def test_columns_of_different_scales_are_standardised(cls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    y = y if cls is not TunedKernelSVC else (y > 0).astype(int)
    X[:, 2] *= 1e4  # says nothing, and hides the other columns
    machine = cls(metric=None, random_state=0).fit(X[:200], y[:200])
    assert machine.scaler_ is not None
    assert machine.score(X[200:], y[200:]) > 0.85
    same = machine.predict(sp.csr_array(X[200:]))
    np.testing.assert_allclose(same, machine.predict(X[200:]), atol=1e-3)


@pytest.mark.parametrize("cls", [TunedKernelSVC, TunedKernelSVR])
def test_of_more_rows_columns_have_weights_where_few_of_them_matter(cls, monkeypatch):
    monkeypatch.setattr(constants, "SMALL_ROWS", 300)
    monkeypatch.setattr(constants, "WEIGHTS_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 12))
    f = np.sin(2 * X[:, 0]) + X[:, 1], X @ np.ones(12)
    for y, few_matter in zip(f, (True, False), strict=True):
        y = y if cls is not TunedKernelSVC else (y > 0).astype(int)
        machine, plain = (
            cls(metric=metric, random_state=0).fit(X[:400], y[:400]) for metric in ("small", None)
        )
        assert (machine.metric_ is not None) == few_matter
        if few_matter:
            assert set(np.argsort(-machine.metric_.feature_importances_)[:2]) == {0, 1}
            errors = 1.0 - machine.score(X[400:], y[400:]), 1.0 - plain.score(X[400:], y[400:])
            assert errors[0] < 0.7 * errors[1]
        else:  # as if nothing had been tried
            np.testing.assert_array_equal(machine.predict(X[400:]), plain.predict(X[400:]))


def test_a_small_gain_of_the_first_rung_standardises_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) * [1.0, 10.0]
    errors = iter([0.2, 0.2 * (1.01 - constants.SCALER_GAIN)])

    def first_rung(*arguments):
        rung = FirstRung(*arguments)
        rung.error, rung.deviation = next(errors), 0.0
        return rung

    monkeypatch.setattr(self_tuning, "FirstRung", first_rung)
    model = TunedKernelSVC(kernel="rbf", metric=None).fit(X, (X[:, 0] > 0).astype(int))
    assert model.scaler_ is None
    assert next(errors, None) is None  # both were measured


@pytest.mark.parametrize("few", [True, False])
def test_few_rows_of_thresholds_have_the_kernel_of_absolute_differences(monkeypatch, few):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.floor(4.0 * X[:, 0]) + np.floor(3.0 * X[:, 1]) + 0.05 * rng.normal(size=200)
    monkeypatch.setattr(constants, "SMALL_ROWS", 200 if few else 199)
    for cls in (TunedKernelSVR, TunedKernelRidge):
        model = cls(metric=None, random_state=0).fit(X, y)
        assert model.kernel_ == model.best_estimator_.kernel == ("laplacian" if few else "rbf")


def test_columns_have_one_size_whatever_the_container():
    """Dense indicators were divided by their deviation, so that the rarest counted most."""
    rng = np.random.default_rng(0)
    coin, rare = rng.integers(0, 2, 400), np.where(rng.random(400) < 0.1, 3.0, 0.0)
    normal, words = 100.0 * rng.normal(size=400), rare * rng.integers(1, 5, 400)
    columns = [normal, 1e4 + normal, coin, 1 + coin, 2 * coin - 1, 0 * coin, 0 * coin + 7, rare]
    X = np.column_stack([*columns, words])
    sparse, explicit_zeros = sp.csr_array(X), sp.csr_array(np.ones(X.shape))
    explicit_zeros.data = X.ravel()
    size = X[:, 0].std()
    expected = [size, size, 1, 1, 2, 1, 1, 3, np.sqrt(np.mean(words[words > 0] ** 2))]
    for rows in (X, sparse, explicit_zeros):
        np.testing.assert_allclose(self_tuning._scaler_of(rows).scale_, expected)
        assert self_tuning._scaler_of(rows[:, 2:8]) is None


def test_the_last_rows_of_each_class_are_held_out():
    index = np.array([0, 1, 0, 0, 2, 1, 0, 0, 1, 1])
    task = Classification(index, 3, balanced=False)
    np.testing.assert_array_equal(task.last_rows(0.4), [4, 6, 7, 8, 9])


@pytest.mark.parametrize("n", [900, 17_000])
def test_many_rows_are_decided_by_machines_of_most_of_them(n, monkeypatch):
    if n == 900:  # are many with these constants
        monkeypatch.setattr(search, "FEW_ROWS", 500)
        monkeypatch.setattr(smoother_models, "FEW_ROWS", 500)
        smaller = {"GRID_VALUES": 2**17, "SAMPLE_VALUES": 2**17, "LOCAL_ROWS": 200}
        for name, value in (smaller | {"MAX_VALUES": 0, "CLUSTER_ROWS": 300}).items():
            monkeypatch.setattr(constants, name, value)
    X, y = moons(n)
    states = []
    trace = Trace(lambda seconds, state: states.append(state))
    machine = TunedKernelSVC(random_state=0).fit(X, y, trace=trace)
    results = machine.search_results_
    assert set(results["rows"]) == {"sample", "cell", "holdout"}
    last = results["rows"] == "holdout"
    assert np.all(results["n_rows"][last] == n - n // 5)
    tried = [state for state in states if "validation_error" in state]
    assert len(tried) == len(results["gamma"])
    assert all({"gamma", "C", "n_rows"} <= set(state) for state in tried)
    # C, then gamma, are lowered while the error falls.
    assert machine.cv_error_ == results["error"][last].min()
    assert np.all(np.diff(results["gamma"][last]) <= 0)
    assert np.sum(last) <= 6
    chosen = (results["gamma"] == machine.gamma_) & (results["C"] == machine.C_) & last
    assert np.sum(chosen) == 1
    assert isinstance(machine.best_estimator_, DCSVC if n == 900 else KernelSVC)
    new, truth = moons(5000, seed=1)
    assert machine.cv_error_interval_[0] - 0.01 <= 1 - machine.score(new, truth)
    assert 1 - machine.score(new, truth) <= machine.cv_error_interval_[1] + 0.01


@pytest.mark.parametrize(("noise", "dtype"), [(0.0, "float64"), (0.3, "float32")])
def test_a_ridge_below_the_rounding_of_float32_is_factorised_in_float64(noise, dtype):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(200, 2))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + noise * rng.normal(size=200)
    machine = TunedKernelRidge(random_state=0).fit(X, y)
    assert machine.best_estimator_.dtype == dtype


def test_the_width_of_a_ridge_machine_is_not_the_edge_of_those_tried(monkeypatch):
    # The second rung has kernels that are too wide, as after a first rung that was wrong.
    monkeypatch.setattr(RidgeSearch, "_promising_widths", lambda *_: np.array([-2.0, -1.0]))
    monkeypatch.setattr(constants, "RIDGE_ROWS", (100, 300, 3000))
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(700, 2))
    y = np.sin(4.0 * X[:, 0]) + X[:, 1]
    options = {"kernel": "rbf", "metric": None, "scaler": None, "random_state": 0}
    machine = TunedKernelRidge(**options).fit(X, y)
    results = machine.search_results_
    too_wide, tried = (results["gamma"][results["n_rows"] == m] for m in (300, 700))
    assert too_wide.max() < machine.gamma_
    assert tried.min() < machine.gamma_ < tried.max()
    assert 3 <= len(tried) <= 5


def classes_on_a_line(k, per_class, seed=0):
    """Rows (k per_class, 2) of classes whose means are 0, 1, ..., k - 1, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(k), per_class))
    return np.column_stack([y + 0.3 * rng.normal(size=len(y)), rng.normal(size=len(y))]), y


def test_groups_of_classes_are_neighbours_and_hold_every_class_once(monkeypatch):
    monkeypatch.setattr(constants, "MAX_PAIRS", 10)
    monkeypatch.setattr(constants, "MIN_GROUP", 4)
    X, y = classes_on_a_line(12, 10)
    task = Classification(y, 12, balanced=False)
    rows = PreparedRows(X, "rbf", np.random.default_rng(0))
    training, validation = np.split(task.order(np.random.default_rng(1)), [80])
    parts = task.subproblems(rows, training, validation)
    assert len(parts) == 3
    groups = sorted(sorted(set(y[part].tolist())) for part, _ in parts)
    assert groups == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    for which, whole in enumerate((training, validation)):
        np.testing.assert_array_equal(
            np.sort(np.concatenate([part[which] for part in parts])), np.sort(whole)
        )
    assert task.subproblem_factor == 66 / 6


def test_the_error_in_a_group_is_that_of_its_rows_alone(monkeypatch):
    X, y = classes_on_a_line(8, 20)

    def losses(task, training, validation):
        training = task.arranged(training)
        problem = rows.gram(training, validation), 1.0, [1.0, 8.0], training, validation
        return task.losses(*problem, 1000, Deadline(None, Trace())).losses

    monkeypatch.setattr(constants, "MAX_PAIRS", 10)
    monkeypatch.setattr(constants, "MIN_GROUP", 4)
    rows = PreparedRows(X, "rbf", np.random.default_rng(0))
    task = Classification(y, 8, balanced=False)
    training, validation = np.split(task.order(np.random.default_rng(1)), [120])
    for part in task.subproblems(rows, training, validation):
        low = y[part[0]].min()
        alone = Classification(np.clip(y - low, 0, 3), 4, balanced=False)
        np.testing.assert_array_equal(losses(task, *part), losses(alone, *part))


def test_many_classes_are_searched_by_few_pairs_and_the_error_is_that_of_all(monkeypatch):
    X, y = classes_on_a_line(12, 12)
    new, truth = classes_on_a_line(12, 200, seed=1)
    problems = []

    def counted(*arguments, **options):
        problems.append(1)
        return along_c(*arguments, **options)

    monkeypatch.setattr("kbench.width_search.tasks.along_c", counted)
    options = {"kernel": "rbf", "metric": None, "random_state": 0}
    whole = TunedKernelSVC(**options).fit(X, y)
    of_all = len(problems)
    problems.clear()
    monkeypatch.setattr(constants, "MAX_PAIRS", 10)
    monkeypatch.setattr(constants, "MIN_GROUP", 4)
    grouped = TunedKernelSVC(**options).fit(X, y)
    assert len(problems) < of_all / 3
    assert grouped.score(new, truth) > whole.score(new, truth) - 0.03
    low, high = grouped.cv_error_interval_
    assert low - 0.02 < 1.0 - grouped.score(new, truth) < high + 0.02
