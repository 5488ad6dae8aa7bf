"""The linear solver against an independent one, its optimality conditions, and what it may cost."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from kbench.solvers import solve_linear_dual
from kbench.solvers.linear.block_sweep import effective_rank
from kbench.trace import Trace

LOSSES = ["hinge", "squared_hinge"]


class Blocks:
    """Rows of an array, handed out a few at a time, and a count of how often."""

    def __init__(self, X, size):
        self.shape, self.n_blocks = X.shape, 0
        self._X, self._size = X, size

    def slices(self):
        n = len(self._X)
        return [slice(start, min(start + self._size, n)) for start in range(0, n, self._size)]

    def block(self, rows):
        self.n_blocks += 1
        return self._X[rows].copy()


def problem(n=80, d=6, m=1, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.where(X @ rng.normal(size=(d, m)) + noise * rng.normal(size=(n, m)) > 0, 1.0, -1.0)
    return X, Y


def solve(X, Y, C=1.0, seed=0, **options):
    C = np.broadcast_to(np.asarray(C, float), len(Y))
    return solve_linear_dual(X, Y, C, np.random.RandomState(seed), **{"tol": 1e-6} | options)


def quadratic_program(X, y, C, loss):
    """Value of the dual by projected quasi-Newton steps on the n variables."""
    Q = (X * y[:, None]) @ (X * y[:, None]).T
    bound = C
    if loss == "squared_hinge":
        Q[np.diag_indices_from(Q)] += 0.5 / C
        bound = np.full(len(C), np.inf)
    found = scipy.optimize.minimize(
        lambda a: (0.5 * a @ Q @ a - a.sum(), Q @ a - 1.0),
        np.zeros(len(y)),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(np.zeros(len(y)), bound, strict=True)),
        options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-9},
    )
    return found.fun


@given(
    loss=st.sampled_from(LOSSES),
    n=st.integers(2, 60),
    d=st.integers(2, 12),
    scale=st.sampled_from([0.05, 1.0, 5.0]),
    mean=st.sampled_from([0.0, 10.0]),
    seed=st.integers(0, 10_000),
)
# Takes 5,204 passes, most of them over two or three points between two looks at all.
@example(loss="hinge", n=20, d=2, scale=5.0, mean=10.0, seed=119)
@settings(max_examples=40)
def test_no_general_solver_finds_better_and_the_gap_proves_it(loss, n, d, scale, mean, seed):
    X, Y = problem(n, d, seed=seed)
    X += mean
    C = scale * np.random.default_rng(seed).uniform(0.1, 2.0, n)
    result = solve(X, Y, C, loss=loss, max_iter=20_000)
    # The general solver sometimes gives up above the minimum, never below it.
    other = quadratic_program(X, Y[:, 0], C, loss)
    assert result.objective[0] <= other + 1e-5 * abs(other)

    # What defines a solution: feasible, w of its definition, and a gap that vanishes.
    alpha = result.alpha[:, 0]
    assert alpha.min() >= 0.0
    assert loss == "squared_hinge" or np.all(alpha <= C)
    np.testing.assert_allclose(result.coef[:, 0], X.T @ (alpha * Y[:, 0]), atol=1e-8 * scale * n)
    assert -1e-9 <= result.gap[0] <= 1e-4 * abs(result.objective[0]) + 1e-4


@pytest.mark.parametrize("loss", LOSSES)
def test_gap_is_primal_minus_dual(loss):
    X, Y = problem(200)
    result = solve(X, Y, 0.7, loss=loss, tol=0.5)
    slack = np.maximum(1 - Y * (X @ result.coef), 0) ** (2 if loss == "squared_hinge" else 1)
    primal = 0.5 * (result.coef**2).sum() + 0.7 * slack.sum()
    assert result.gap[0] == pytest.approx(primal + result.objective[0], rel=1e-9)
    assert result.gap[0] > 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("max_iter", [1, 500])
def test_a_stopped_solution_has_the_violation_of_all_points(loss, max_iter):
    """Not that of the few points that were active: 6e-4 at a duality gap of the whole objective."""
    X, Y = problem(20, 2, seed=119)
    X += 10.0
    C = 5.0 * np.random.default_rng(119).uniform(0.1, 2.0, 20)
    result = solve(X, Y, C, loss=loss, max_iter=max_iter)
    assert not result.converged
    alpha = result.alpha[:, 0]
    gradient = Y[:, 0] * (X @ result.coef[:, 0]) - 1.0
    bound = C
    if loss == "squared_hinge":
        gradient, bound = gradient + alpha / (2.0 * C), np.inf
    high, low = gradient[alpha > 0.0], gradient[alpha < bound]
    expected = high.max(initial=0.0) - low.min(initial=0.0)
    assert result.violation == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_liblinear_finds_the_same(loss):
    X, Y = problem(400, 8)
    model = LinearSVC(loss=loss, fit_intercept=False, tol=1e-7, max_iter=100_000, random_state=0)
    model.fit(X, Y[:, 0])
    result = solve(X, Y, loss=loss, tol=1e-7)
    np.testing.assert_allclose(result.coef[:, 0], model.coef_[0], atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_form_of_the_rows_gives_the_same_machine(loss):
    X, Y = problem(150, 5, m=3)
    X[np.abs(X) < 0.5] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    expected = solve(X, Y, loss=loss, tol=1e-5)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    read_only = X.astype(np.float32)
    read_only.flags.writeable = False
    for form in (
        read_only,
        np.asfortranarray(X),
        sp.csr_array(X),
        sp.csr_array(X.astype(np.float32)),
        wide,
        Blocks(X, 40),
        Blocks(X.astype(np.float32), 149),
    ):
        result = solve(form, Y, loss=loss, tol=1e-5)
        assert result.converged
        np.testing.assert_allclose(result.objective, expected.objective, rtol=1e-7)
        np.testing.assert_allclose(result.coef, expected.coef, atol=1e-4)


def test_problems_that_share_rows_are_solved_as_if_alone():
    X, Y = problem(120, 5, m=4)
    together = solve(X, Y)
    for j in range(4):
        alone = solve(X, Y[:, [j]])
        assert together.objective[j] == pytest.approx(alone.objective[0], rel=1e-8)
        np.testing.assert_allclose(together.coef[:, j], alone.coef[:, 0], atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_of_two_is_the_row_twice_and_zero_its_absence(loss):
    X, Y = problem(90)
    weight = np.arange(90) % 3
    weighted = solve(X, Y, weight, loss=loss)
    repeated = solve(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0), loss=loss)
    assert weighted.objective[0] == pytest.approx(repeated.objective[0], rel=1e-7)
    assert not weighted.alpha[weight == 0].any()


def test_separable_problem_with_a_huge_weight_is_the_hard_margin():
    X = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [-3.0, -3.0]])
    Y = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    result = solve(X, Y, 1e6, tol=1e-9)
    np.testing.assert_allclose(result.coef[:, 0], [0.5, 0.5], atol=1e-6)
    assert np.all(Y * (X @ result.coef) >= 1 - 1e-6)


def test_edges_one_point_rows_of_zeros_one_class_and_no_weight():
    one = solve(np.array([[2.0]]), np.array([[1.0]]), 5.0)
    assert one.coef[0, 0] == pytest.approx(0.5)
    nothing = solve(np.zeros((3, 2)), np.array([[1.0], [-1.0], [1.0]]), 2.0)
    assert nothing.converged
    np.testing.assert_array_equal(nothing.alpha, 2.0)
    X, _ = problem(30)
    assert solve(X, np.ones((30, 1))).converged
    idle = solve(X, np.ones((30, 1)), 0.0)
    assert idle.converged
    assert not idle.coef.any()


def test_shrinking_saves_visits_and_changes_nothing():
    X, Y = problem(2000, 20, noise=3.0)
    result = solve(X, Y, tol=1e-4)
    assert result.n_visits < 0.5 * result.n_iter * 2000
    assert result.gap[0] <= 1e-5 * abs(result.objective[0])


def test_blocks_without_active_points_are_not_computed():
    X, Y = problem(1600, 70, noise=0.0)
    order = np.argsort(np.abs(X @ np.linalg.lstsq(X, Y[:, 0], rcond=None)[0]))
    blocks = Blocks(X[order], 200)
    result = solve(blocks, Y[order], 0.1, tol=0.01)
    assert result.converged
    assert blocks.n_blocks < 0.7 * 8 * (result.n_iter + 1)


def test_effective_rank_counts_directions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 40))
    assert effective_rank(X) == pytest.approx(40, rel=0.1)
    assert effective_rank(X + 100.0) == pytest.approx(1, rel=0.01)
    assert effective_rank(X[:1]) == 0.0
    assert np.isfinite(effective_rank(np.zeros((5, 3))))


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_with_a_common_mean_come_closer_in_as_many_visits(loss):
    X, Y = problem(400, 70, m=2, noise=3.0)
    X += 10.0
    together, alone = (
        solve(form(X), Y, loss=loss, tol=1.0, max_iter=100) for form in (np.asarray, sp.csr_array)
    )
    assert together.n_visits <= alone.n_visits + together.alpha.size
    assert np.all(together.gap < 0.2 * alone.gap)
    np.testing.assert_allclose(together.coef, X.T @ (together.alpha * Y), atol=1e-8)


def test_a_seed_decides_everything():
    X, Y = problem(100)
    first, second, other = (solve(X, Y, seed=seed, tol=0.1) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.alpha, second.alpha)
    assert not np.array_equal(first.alpha, other.alpha)


def test_a_limit_leaves_a_feasible_point_and_says_so():
    X, Y = problem(300, noise=2.0)
    result = solve(X, Y, 100.0, max_iter=1)
    assert not result.converged
    assert result.n_visits == 300
    assert result.violation > 1e-6
    assert 0.0 <= result.alpha.min() <= result.alpha.max() <= 100.0
    assert result.gap[0] > 0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_are_not_copied(form, peak_bytes):
    X, Y = problem(9000, 400)
    X = form(X.astype(np.float32))
    nbytes = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes
    assert peak_bytes(lambda: solve(X, Y, tol=1.0)) < 0.35 * nbytes


def test_objective_falls_from_pass_to_pass():
    X, Y = problem(500, noise=2.0)
    seen = []
    result = solve(X, Y, trace=Trace(lambda seconds, state: seen.append(state["objective"])))
    assert len(seen) == result.n_iter
    assert np.all(np.diff(seen) <= 1e-9)
    assert seen[-1] == pytest.approx(result.objective[0])
