"""Kernel ridge machines: against scikit-learn's, against the dense matrices that they stand for."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel

from kbench.approximation import BKA, MEKA, RandomFeatures, SpectralNystrom
from kbench.methods import (
    ApproximateRidge,
    ApproximateRidgeClassifier,
    DCKernelRidge,
    DCKernelRidgeClassifier,
    FalkonClassifier,
    FalkonRegressor,
    KernelRidge,
    KernelRidgeClassifier,
)
from kbench.methods.base.penalty import _distinct_rows
from kbench.solvers import solve_cg
from kbench.trace import Trace

REGRESSORS = {
    "krr": KernelRidge("loo", kernel="rbf", gamma="scale"),
    "krr_pcg": KernelRidge("loo", kernel="rbf", gamma="scale", solver="pcg", n_landmarks=30),
    "dckrr": DCKernelRidge(3, random_state=0),
    "falkon": FalkonRegressor(60, random_state=0),
    "nystrom": ApproximateRidge(SpectralNystrom(30), random_state=0),
    "rks": ApproximateRidge(RandomFeatures(30), random_state=0),
    "bka": ApproximateRidge(BKA(3), random_state=0),
    "meka": ApproximateRidge(MEKA(20, n_clusters=3), random_state=0),
}
CLASSIFIERS = [
    KernelRidgeClassifier(),
    DCKernelRidgeClassifier(3, random_state=0),
    FalkonClassifier(60, random_state=0),
    ApproximateRidgeClassifier(SpectralNystrom(30), random_state=0),
    ApproximateRidgeClassifier(RandomFeatures(60), random_state=0),
    ApproximateRidgeClassifier(BKA(3), random_state=0),
    ApproximateRidgeClassifier(MEKA(20, n_clusters=3), random_state=0),
]
APPROXIMATE = ["nystrom", "rks", "bka", "meka"]


def data(n=240, m=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = signal + 0.1 * rng.normal(size=n)
    return X, y if m is None else np.column_stack([y, *(-j * y for j in range(1, m))])


def configured(model, gamma=0.3, **params):
    """A copy of a model with the kernel's gamma, which may belong to the approximation."""
    name = "gamma" if "gamma" in model.get_params() else "approximation__gamma"
    return clone(model).set_params(**{name: gamma}, **params)


@pytest.fixture(params=REGRESSORS)
def machine(request):
    return configured(REGRESSORS[request.param], alpha=0.5)


@pytest.mark.parametrize("sparse", [False, True])
def test_both_preconditioners_give_the_exact_machine(sparse):
    X, Y = data(m=2)
    if sparse:
        X = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    expected = KernelRidge(0.01, kernel="rbf", gamma=0.1).fit(X, Y)
    iterations = []
    for n_landmarks in (1, 60, 1000):
        model = KernelRidge(
            0.01, kernel="rbf", gamma=0.1, solver="pcg", n_landmarks=n_landmarks
        ).fit(X, Y)
        np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-5, atol=1e-4)
        assert model.converged_
        iterations.append(model.n_iter_)
    assert iterations[2] <= iterations[1] < iterations[0] / 3
    m = min(60, len(Y))
    model.set_params(n_landmarks=m, alpha=1.0).fit(X, Y)
    assert model.kernel_entries_ <= m**2 + len(Y) * m + model.n_iter_ * len(Y) ** 2
    assert set(model.timings_) == {"precondition", "solve"}


def test_one_part_is_the_exact_machine_and_several_are_their_mean():
    X, y = data()
    X_new = X[:40] + 0.1
    exact = KernelRidge(0.5, kernel="rbf", gamma=0.3).fit(X, y)
    one = DCKernelRidge(1, alpha=0.5, gamma=0.3, random_state=0).fit(X, y)
    np.testing.assert_allclose(one.predict(X_new), exact.predict(X_new), atol=1e-5)
    three = DCKernelRidge(3, alpha=0.5, gamma=0.3, random_state=0).fit(X, y)
    parts = np.array_split(np.random.RandomState(0).permutation(240), 3)
    alone = [
        KernelRidge(0.5, kernel="rbf", gamma=0.3).fit(X[p], y[p]).predict(X_new) for p in parts
    ]
    np.testing.assert_allclose(three.predict(X_new), np.mean(alone, axis=0), atol=1e-5)
    assert three.kernel_numbers_ == 3 * 80**2


@pytest.mark.parametrize("memory_mb", [0, 100])
@pytest.mark.parametrize("n_components", [40, 240])
def test_falkon_is_the_ridge_in_the_span_of_its_landmarks(memory_mb, n_components):
    X, Y = data(m=2)
    model = FalkonRegressor(
        n_components, alpha=0.5, gamma=0.3, memory_mb=memory_mb, random_state=0
    ).fit(X, Y)
    chosen = np.sort(np.random.RandomState(0).choice(240, n_components, replace=False))
    C, M = rbf_kernel(X, X[chosen], gamma=0.3), rbf_kernel(X[chosen], gamma=0.3)
    expected = C @ np.linalg.lstsq(C.T @ C + 0.5 * M, C.T @ Y, rcond=1e-12)[0]
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-2)
    assert model.converged_
    assert model.n_iter_ < 40
    if memory_mb:
        assert model.kernel_entries_ == n_components**2 + 2 * 240 * n_components


@pytest.mark.parametrize("gamma", [0.01, 0.3, 3.0])
def test_falkon_converges_sooner_the_more_rows_its_preconditioner_sees(gamma):
    X, y = data(2000)
    iterations, values = [], []
    for rows in (0, None, 2000):
        model = FalkonRegressor(
            100, alpha=1e-3, gamma=gamma, preconditioner_rows=rows, max_iter=300, random_state=0
        ).fit(X, y)
        assert model.converged_
        iterations.append(model.n_iter_)
        values.append(model.predict(X[:200]))
    assert iterations[0] > iterations[1] > iterations[2]
    assert iterations[1] <= 20
    assert iterations[2] <= 3
    np.testing.assert_allclose(values[0], values[2], atol=1e-2)


@pytest.mark.parametrize("form", ["cos_sin", "phase"])
def test_random_features_are_two_for_each_unit_of_rank(form):
    X, y = data()
    for features in ("fourier", "orthogonal", "quasi", "fastfood"):
        part = RandomFeatures(30, features=features, form=form)
        assert ApproximateRidge(part, random_state=0).fit(X, y).kernel_numbers_ == 240 * 60
    with pytest.raises(ValueError, match="sampling='orthogonal' is for kernels with an isotropic"):
        ApproximateRidge(RandomFeatures(features="orthogonal", kernel="laplacian")).fit(X, y)


def test_landmarks_may_be_a_multiple_of_the_rank():
    X, y = data()
    for n_landmarks, m in ((None, 60), (1.5, 45), (40, 40), ("all", 240)):
        part = SpectralNystrom(30, n_landmarks=n_landmarks)
        model = ApproximateRidge(part, random_state=0).fit(X, y)
        assert model.kernel_entries_ == m * (m + 240)


@pytest.mark.parametrize("solver", ["cg", "pcg"])
@pytest.mark.parametrize("name", APPROXIMATE)
def test_direct_and_iterative_solvers_agree(name, solver):
    X, Y = data(m=2)
    direct = configured(REGRESSORS[name], alpha=0.5).fit(X, Y)
    iterative = configured(REGRESSORS[name], alpha=0.5, solver=solver)
    seen = []
    iterative.fit(X, Y, trace=Trace(lambda seconds, state: seen.append(state["residual"])))
    np.testing.assert_allclose(iterative.predict(X), direct.predict(X), atol=1e-3)
    assert iterative.converged_
    assert len(seen) == iterative.n_iter_
    assert seen[-1] <= 1e-6
    assert (direct.n_iter_, direct.converged_) == (1, True)


@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_preconditioner_saves_most_of_the_iterations(gamma):
    X = np.vstack([data(400, seed=s)[0] + 2.0 * s for s in range(4)])
    y = np.sin(X).sum(axis=1)[:, None]
    approximation = MEKA(24, n_clusters=8, gamma=gamma, dtype="float64", random_state=0)
    G = approximation.fit(X).matrix_
    needed = []
    for rank in (None, 128, 192):
        options = {} if rank is None else {"precondition": G.preconditioner(0.01, rank=rank)}
        result = solve_cg(lambda V: G @ V + 0.01 * V, y, max_iter=5000, **options)
        assert result.converged
        needed.append(result.n_iter)
    assert needed[1] < needed[0] / 3
    assert needed[2] <= 3


def test_conjugate_gradients_on_an_indefinite_matrix_hand_over():
    X, y = data()
    part = MEKA(12, n_clusters=5, gamma=0.05, link="sampled", rho=0.0, pinv_cut=1e-6)
    options = {"alpha": 1e-4, "max_iter": 2000, "random_state": 0}
    predictions = []
    for solver in ("cg", "pcg", "direct"):
        with pytest.warns(RuntimeWarning, match="negative ones are replaced by zero"):
            model = ApproximateRidge(part, solver=solver, **options).fit(X, y)
        predictions.append(model.predict(X))
    np.testing.assert_array_equal(predictions[0], predictions[2])
    np.testing.assert_array_equal(predictions[1], predictions[2])
    assert np.isfinite(predictions[0]).all()


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate_machines_report_their_matrix(name):
    X, y = data()
    trace = Trace()
    model = configured(REGRESSORS[name]).fit(X, y, trace=trace)
    assert 0.0 < model.kernel_error_ < 1.0
    assert model.kernel_numbers_ > 0
    assert model.timings_["solve"] > 0
    assert trace.paused_wall_s > 0
    silent = clone(REGRESSORS[name]).set_params(error_rows=0).fit(X, y)
    assert not hasattr(silent, "kernel_error_")


def test_falkons_kernel_error_is_that_of_the_nystrom_matrix_of_its_landmarks():
    X, y = data()
    model = FalkonRegressor(40, gamma=0.3, random_state=0).fit(X, y)
    chosen = np.sort(np.random.RandomState(0).choice(240, 40, replace=False))
    K, M = rbf_kernel(X, gamma=0.3), rbf_kernel(X[chosen], gamma=0.3)
    G = K[:, chosen] @ np.linalg.pinv(M, rcond=1e-12, hermitian=True) @ K[chosen]
    expected = np.linalg.norm(K - G) / np.linalg.norm(K)
    assert model.kernel_error_ == pytest.approx(expected, rel=1e-3)
    assert not hasattr(FalkonRegressor(40, error_rows=0).fit(X, y), "kernel_error_")


def test_kernel_errors_of_all_seeds_are_measured_on_the_same_rows():
    X, y = data()
    # All rows are landmarks, so seeds could differ by the rows compared only.
    part = SpectralNystrom(10, n_landmarks="all", gamma=0.3)
    errors = [
        ApproximateRidge(part, error_rows=7, random_state=s).fit(X, y).kernel_error_
        for s in range(3)
    ]
    assert max(errors) == pytest.approx(min(errors), rel=1e-4)


def test_the_part_is_cloned_and_the_seed_of_the_estimator_is_for_a_part_without_one():
    X, y = data()
    part = MEKA(8, n_clusters=3, gamma=0.3)
    model = ApproximateRidge(part, random_state=5).fit(X, y)
    assert part.random_state is None
    assert not hasattr(part, "matrix_")
    assert model.approximation is part
    own = ApproximateRidge(clone(part).set_params(random_state=5)).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), own.predict(X))


def test_presets_are_the_papers_parameters():
    X, y = data()
    options = {"n_clusters": 3, "gamma": 0.3}
    paper = MEKA(8, preset="paper", **options)
    same = MEKA(8, landmarks="uniform", link="sampled", pinv_cut=0.03, eps=0.0, **options)
    first, second = (
        ApproximateRidge(part, alpha=20.0, random_state=0).fit(X, y) for part in (paper, same)
    )
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    released = ApproximateRidge(MEKA(24, preset="released", **options), alpha=20.0, random_state=0)
    assert released.fit(X, y).kernel_numbers_ < 1.2 * 240 * 9


def test_what_the_user_sets_wins_over_a_preset():
    options = {"link": "galerkin", "preset": "paper", "random_state": 0}
    model = MEKA(8, n_clusters=3, gamma=0.3, **options).fit(data()[0])
    assert model.effective_params_["link"] == "galerkin"
    assert model.effective_params_["landmarks"] == "uniform"


def test_several_targets_are_each_alone(machine):
    X, Y = data(m=3)
    together = machine.fit(X, Y).predict(X)
    assert together.shape == (240, 3)
    for j in range(3):
        np.testing.assert_allclose(machine.fit(X, Y[:, j]).predict(X), together[:, j], atol=2e-3)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_classes_are_targets_of_minus_and_plus_one(model):
    X, y = load_iris(return_X_y=True)
    model = configured(model, alpha=0.1).fit(X, y)
    assert model.score(X, y) > 0.93
    values = model.decision_function(X)
    assert values.shape == (150, 3)
    names = np.array(["no", "yes"])[(y == 1).astype(int)]
    model.fit(X, names)
    np.testing.assert_allclose(model.decision_function(X), values[:, 1], atol=1e-2)
    assert list(model.classes_) == ["no", "yes"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            KernelRidge(kernel="rbf", solver="pcg", memory_mb=0.1),
            "240 points at 240 landmarks .*=0.1",
        ),
        (KernelRidge(memory_mb=0.1), "kernel matrix of 240 points takes .* memory_mb=0.1"),
    ],
)
def test_parameters_that_cannot_be_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data())


@pytest.mark.parametrize("d", [1, 2, 40])
def test_rows_that_choose_alpha_are_distinct_and_depend_on_their_values_alone(d):
    X, every = np.random.default_rng(0).normal(size=(600, d)), np.arange(600)
    X[np.abs(X) < 0.1] = 0.0
    X[0] = 0.0
    chosen = X[_distinct_rows(X, every)]
    assert len(np.unique(chosen, axis=0)) == len(chosen) == 500
    order = np.random.default_rng(1).permutation(np.repeat(every, 2))
    for same in (2.0**-20 * X, X[order], sp.csr_array(X), np.where(X == 0.0, -0.0, X)):
        found = _distinct_rows(same, np.arange(same.shape[0]))
        rows = same[found].toarray() if sp.issparse(same) else same[found]
        np.testing.assert_array_equal(rows / np.abs(rows).max(), chosen / np.abs(chosen).max())
    # Neither rows far from 0 nor one that is far from the others make the rest equal.
    far = np.vstack([X, np.full((1, d), 1e13)])
    for rows in (X + 1e10, far, far.astype(np.float32), np.round(5.0 * X)):
        found = rows[_distinct_rows(rows, np.arange(len(rows)))]
        assert len(found) == min(500, len(np.unique(rows, axis=0)))
