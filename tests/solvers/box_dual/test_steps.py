"""The dense inner solvers against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.solvers.box_dual.coordinate_descent import coordinate_steps
from kbench.solvers.box_dual.face_newton import face_steps
from kbench.solvers.box_dual.pair_descent import pair_steps


def dense(q, seed, dtype=np.float64, *, epsilon=0.0):
    """K, z and bounds on both sides of 0, of which one is 0 without epsilon."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(q, q))
    K = (A @ A.T / q + np.diag(rng.uniform(0, 1, q))).astype(dtype)
    y = rng.choice([-1.0, 1.0], q)
    C = rng.uniform(0, 2, q)
    return K, y, *((-C, C) if epsilon else (np.minimum(0, C * y), np.maximum(0, C * y)))


def directions(beta, lower, upper, epsilon):
    """Distances up and down to a bound or 0, and the slopes of epsilon |b| there; infinite at 0."""
    up, down = np.where(beta < 0, 0, upper) - beta, beta - np.where(beta > 0, 0, lower)
    lift = np.where(up > 0, np.where(beta < 0, epsilon, -epsilon), -np.inf)
    drop = np.where(down > 0, np.where(beta > 0, -epsilon, epsilon), np.inf)
    return up, down, lift, drop


def best_coordinate(K, r, up, down, lift, drop):
    rate, diagonal = np.maximum(r + lift, 0) + np.minimum(r + drop, 0), K.diagonal()
    move = np.clip(rate / diagonal, -down, up)
    i = (move * (rate - 0.5 * diagonal * move)).argmax()
    return [(i, move[i])]


def best_pair(K, r, up, down, lift, drop):
    i = (r + lift).argmax()
    h = K[i, i] + K.diagonal() - 2 * K[i]
    h[i] = np.inf
    d = np.maximum((r + lift)[i] - (r + drop), 0)
    t = np.minimum(np.minimum(d / h, up[i]), down)
    h[i] = 0
    j = (t * (d - 0.5 * h * t)).argmax()
    return [(i, t[j]), (j, -t[j])]


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize(
    ("steps", "best"),
    [(coordinate_steps, best_coordinate), (pair_steps, best_pair)],
    ids=["coordinates", "pairs"],
)
def test_steps_equal_naive_greedy_descent(steps, best, epsilon):
    K, z, lower, upper = dense(90, 0, epsilon=epsilon)
    beta, e = np.zeros(90), z.copy()
    naive, r = np.zeros(90), z.copy()
    assert steps(K, beta, e, lower, upper, K.diagonal().copy(), 1e-30, 150, epsilon) == 150
    for _ in range(150):
        for i, move in best(K, r, *directions(naive, lower, upper, epsilon)):
            naive[i] += move
            r -= move * K[i]
    np.testing.assert_allclose(beta, naive, atol=1e-6)
    np.testing.assert_allclose(e, z - K @ beta, atol=1e-12)


def test_long_steps_between_similar_points_have_small_rounding_errors():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    K = np.exp(-1e-3 * ((X[:, None] - X) ** 2).sum(axis=2)).astype(np.float32)
    z = rng.choice([-1.0, 1.0], 60)
    C = 1e4
    beta, e = np.zeros(60), z.copy()
    pair_steps(K, beta, e, np.minimum(0, C * z), np.maximum(0, C * z), np.ones(60), 1e-2, 300)
    assert np.abs(beta).max() > 1e3
    # One coordinate at a time, the first long step would already be rounded by this.
    assert np.abs(e - (z - K.astype(np.float64) @ beta)).max() < 1e-7 * np.abs(beta).max()


@given(
    q=st.integers(1, 200),
    seed=st.integers(0, 10_000),
    single=st.booleans(),
    pairs=st.booleans(),
    epsilon=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=60)
def test_steps_end_within_the_bounds_at_the_tolerance(q, seed, single, pairs, epsilon):
    K, z, lower, upper = dense(q, seed, np.float32 if single else np.float64, epsilon=epsilon)
    tol = 1e-4 if single else 1e-6
    beta, e = np.zeros(q), z.copy()
    steps = pair_steps if pairs else coordinate_steps
    steps(K, beta, e, lower, upper, K.diagonal().astype(float), tol, 100_000, epsilon)
    assert np.all((lower <= beta) & (beta <= upper))
    np.testing.assert_allclose(e, z - K.astype(float) @ beta, atol=1e-5 if single else 1e-9)
    _, _, lift, drop = directions(beta, lower, upper, epsilon)
    up, down = (e + lift).max(), (e + drop).min()
    if pairs:
        assert up - down <= tol
        assert beta.sum() == pytest.approx(0, abs=1e-12 * q)
    else:
        assert max(up, -down) <= tol


def test_no_point_is_kept_from_its_bound_by_rounding():
    # The first pair moves b_1 to its bound, slightly less than the distance of b_0 from l_0.
    K, z = np.eye(2), np.array([-1.0, 1.0])
    lower, upper = np.zeros(2), np.array([1.0, 0.5])
    beta = np.array([np.nextafter(0.5, 1.0), 0.0])
    e = z - K @ beta
    assert pair_steps(K, beta, e, lower, upper, np.ones(2), 1e-3, 100) == 1
    np.testing.assert_array_equal(beta, [0.0, 0.5])


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_newton_on_a_face_that_holds_the_solution_reaches_it(epsilon):
    K, solution = dense(60, 1)[0], np.random.default_rng(2).uniform(0.5, 2.0, 60)
    solution[:20] = -1.0
    z = K @ solution + epsilon * np.sign(solution)
    lower, upper = np.full(60, -1.0), np.full(60, 1e3)
    beta = np.where(np.arange(60) < 20, -1.0, 0.1)
    e = z - K @ beta
    face_steps(K, beta, e, lower, upper, epsilon, ridge=1e-14)
    np.testing.assert_array_equal(beta[:20], lower[:20])
    np.testing.assert_allclose(beta[20:], solution[20:], rtol=1e-9)
    np.testing.assert_allclose(e, z - K @ beta, atol=1e-9)


@given(
    q=st.integers(1, 40),
    rank=st.integers(1, 40),
    seed=st.integers(0, 99),
    dtype=st.sampled_from([np.float32, np.float64]),
    epsilon=st.sampled_from([0.0, 0.2]),
)
@settings(max_examples=60)
def test_newton_on_a_face_keeps_the_bounds_and_never_increases_f(q, rank, seed, dtype, epsilon):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(q, rank)) / np.sqrt(rank)
    K, z = (A @ A.T).astype(dtype), rng.normal(size=q)
    lower, upper = -rng.uniform(0.0, 3.0, q), rng.uniform(0.0, 3.0, q)
    beta = np.clip(rng.normal(size=q) * 2.0, lower, upper)
    e = z - K @ beta

    def objective():
        return 0.5 * beta @ K.astype(np.float64) @ beta - z @ beta + epsilon * np.abs(beta).sum()

    before, start, at_bound = objective(), beta.copy(), (beta == lower) | (beta == upper)
    face_steps(K, beta, e, lower, upper, epsilon, ridge=100 * np.finfo(dtype).eps)
    assert objective() <= before + 1e-9
    assert ((lower <= beta) & (beta <= upper)).all()
    np.testing.assert_array_equal(beta[at_bound], start[at_bound])
    np.testing.assert_allclose(e, z - K @ beta, atol=1e-4 if dtype == np.float32 else 1e-9)
