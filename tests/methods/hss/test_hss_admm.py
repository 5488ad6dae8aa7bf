"""HSSADMMClassifier: its solution against LIBSVM and KernelSVC, warm starts, several C."""

import numpy as np
import pytest
import scipy.sparse as sp
from dual_problem import coefficients
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from small_problems import binary

from kbench.approximation import HSSMatrix
from kbench.methods import HSSADMMClassifier, KernelSVC
from kbench.trace import Trace

MATRIX = HSSMatrix().get_params().keys() - {"random_state"}


def machine(**options):
    """A classifier whose options are those of its own and those of its matrix."""
    matrix = HSSMatrix(**{name: options[name] for name in MATRIX & options.keys()})
    own = {name: options[name] for name in options.keys() - MATRIX}
    return HSSADMMClassifier(matrix, **own)


def test_many_iterations_reach_the_solution_of_libsvm():
    X, y = binary(600, d=3)
    model = machine(
        C=1.0,
        gamma=0.5,
        beta=10.0,
        max_iter=5000,
        tol=1e-8,
        preset="accurate",
        leaf_size=64,
        trace_tol=1e-9,
        dtype="float64",
        random_state=0,
    ).fit(X, y)
    exact = SVC(C=1.0, gamma=0.5, tol=1e-8).fit(X, y)
    coef = coefficients(exact, len(y))
    objective = 0.5 * coef @ rbf_kernel(X, gamma=0.5) @ coef - np.abs(coef).sum()
    assert model.converged_
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
    assert model.intercept_[0] == pytest.approx(exact.intercept_[0], abs=1e-4)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert model.n_support_.sum() == len(model.support_) < len(y)


def test_decision_is_the_exact_expansion_and_phases_are_named():
    X, y = binary(600, d=3)
    told = {}
    trace = Trace(lambda seconds, state: told.update(state))
    model = machine(gamma=0.5, leaf_size=64, random_state=0).fit(X, y, trace=trace)
    values = rbf_kernel(X, X[model.support_], gamma=0.5) @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), values, atol=1e-5)
    phases = {"prepare", "tree", "neighbours", "compress", "factor", "admm"}
    assert set(model.timings_) == phases
    assert model.n_iter_ == told["n_iter"] == 10
    assert 0.5e6 * told["hss_mb"] == pytest.approx(model.hss_bytes_, rel=0.2)
    assert model.beta_ == 100.0
    assert model.score(X, y) > 0.8


def test_compressed_prediction_agrees_and_reads_less():
    X, y = binary(2000, d=3)
    options = {"gamma": 0.5, "preset": "accurate", "leaf_size": 128, "random_state": 0}
    exact = machine(**options).fit(X, y)
    fast = machine(predict_with="compressed", **options).fit(X, y)
    new = binary(1000, seed=1, d=3)[0]
    assert np.mean(exact.predict(new) == fast.predict(new)) > 0.995
    machines = fast._machine.machines.values()
    assert max(len(machine.coef) for machine in machines) < 0.5 * len(exact.support_)


def test_warm_starts_recompute_only_what_has_changed():
    X, y = binary(600, d=3)
    model = machine(gamma=0.5, leaf_size=64, warm_start=True, random_state=0)

    def phases(**parameters):
        trace = Trace()
        model.set_params(**parameters).fit(X, y, trace=trace)
        cold = clone(model).set_params(warm_start=False).fit(X, y)
        np.testing.assert_allclose(model.dual_coef_, cold.dual_coef_, rtol=0.05, atol=1e-3)
        return model._compressed, trace.timings

    first, timings = phases()
    assert timings["compress"] > 0
    again, timings = phases(C=0.1)
    assert again is first
    assert "compress" not in timings
    factor = again._factor
    again, timings = phases(beta=50.0)
    assert again is first
    assert again._factor is not factor
    assert "compress" not in timings
    other, timings = phases(matrix__gamma=1.0)
    assert other is not first
    assert other.matrix.tree_ is first.matrix.tree_
    assert timings["compress"] > 0
    other_rows = model.fit(X[1:], y[1:])._compressed
    assert other_rows.matrix.tree_ is not first.matrix.tree_


def test_polishing_reaches_the_exact_machine_from_close_to_it():
    X, y = binary(3000, d=3)
    options = {"C": 1.0, "gamma": 0.5}
    iteration = {"tol": 0.05, "max_iter": 500, "leaf_size": 256, "random_state": 0}
    cold = KernelSVC(tol=1e-6, **options).fit(X, y)
    model = machine(polish=True, polish_tol=1e-6, **iteration, **options).fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(cold.objective_, rel=1e-6)
    assert model.intercept_[0] == pytest.approx(cold.intercept_[0], abs=1e-4)
    np.testing.assert_array_equal(model.predict(X), cold.predict(X))
    assert "polish" in model.timings_
    warm = machine(polish=True, **iteration, **options).fit(X, y)
    compression = machine(**iteration, **options).fit(X, y).kernel_entries_
    cold = KernelSVC(**options).fit(X, y)
    assert warm.kernel_entries_ - compression < 0.8 * cold.kernel_entries_


def test_polished_classes_satisfy_the_kkt_conditions_of_their_duals():
    """From a dense start too: ten iterations leave a coefficient on almost every row."""
    X, y = load_iris(return_X_y=True)
    model = machine(gamma=0.5, polish=True, polish_tol=1e-6, leaf_size=32, random_state=0)
    model.fit(X, y)
    K = rbf_kernel(X, gamma=0.5)
    objective = 0.0
    for c, coef, intercept in zip(model.classes_, model.dual_coef_, model.intercept_, strict=True):
        signs = np.where(y == c, 1.0, -1.0)
        signed = np.zeros(len(y))
        signed[model.support_] = coef
        alpha, slack = signs * signed, signs * (K @ signed + intercept) - 1.0
        assert alpha.min() >= 0.0
        assert alpha.max() <= 1.0
        assert signed.sum() == pytest.approx(0.0, abs=1e-9)
        assert slack[alpha < 1.0].min() >= -1e-5
        assert slack[alpha > 0.0].max() <= 1e-5
        objective += 0.5 * signed @ K @ signed - alpha.sum()
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
    np.testing.assert_array_equal(model.n_support_, np.bincount(y[model.support_]))


@pytest.mark.parametrize("several", [False, True])
def test_several_C_are_the_machines_of_each_C(several):
    X, y = load_iris(return_X_y=True) if several else binary(600, d=3)
    values = [0.02, 0.1, 10.0]
    options = {"gamma": 0.5, "beta": 10.0, "leaf_size": 64, "dtype": "float64", "random_state": 0}
    path = machine(C=values, **options)
    told = []
    path.fit(X, y, trace=Trace(lambda seconds, state: told.append(state)))
    assert path.path_ == ("C", values)
    labels = path.predict_path(X)
    for j, C in enumerate(values):
        alone = machine(C=C, **options).fit(X, y)
        np.testing.assert_array_equal(labels[:, j], alone.predict(X))
        if path.C_ == C:
            np.testing.assert_allclose(path.dual_coef_, alone.dual_coef_, atol=1e-9)
            np.testing.assert_allclose(
                path.decision_function(X), alone.decision_function(X), atol=1e-9
            )
            assert path.objective_ == pytest.approx(alone.objective_)
    # The smallest of the best.
    chosen = int(np.argmax(path.validation_scores_))
    assert values[chosen] == path.C_
    scores = [state["validation_accuracy"] for state in told if "C" in state]
    assert scores == list(path.validation_scores_)
    assert "validate" in path.timings_
    # One compression of all rows, and one factorisation.
    n = len(y)
    assert path.kernel_entries_ < 3 * n * n
    assert not hasattr(alone, "predict_path")


def test_warm_starts_continue_with_the_last_beta():
    X, y = binary(300, d=3)
    model = machine(
        gamma=0.5, tol=1e-4, max_iter=2000, leaf_size=64, warm_start=True, random_state=0
    )
    model.fit(X, y)
    cold = clone(model).set_params(C=1.3, warm_start=False).fit(X, y)
    beta, told = model.beta_, []
    trace = Trace(lambda seconds, state: told.append(state))
    model.set_params(C=1.3).fit(X, y, trace=trace)
    assert model.converged_
    assert model.n_iter_ < cold.n_iter_
    assert next(state["beta"] for state in told if "beta" in state) == beta < 100.0


def test_beta_is_raised_if_factors_exist_but_steps_grow():
    X, y = binary(600, d=3)

    def kernel(A, B):
        # Subtracting the rank-one term lowers an eigenvalue by about 80 for 600 points.
        a, b = (np.sign(M[:, :1] * M[:, 1:2]) for M in (A, B))
        return rbf_kernel(A, B, gamma=0.5) - 0.15 * a @ b.T

    least = np.linalg.eigvalsh(kernel(X, X))[0]
    assert -90.0 < least < -50.0
    exact = {"kernel": kernel, "preset": "precise", "C": 1e6, "random_state": 0}
    indefinite = "the compressed matrix is too indefinite for beta=100"
    with pytest.warns(UserWarning, match=f"^{indefinite}"):
        grown = machine(beta=100.0, **exact).fit(X, y)
    with pytest.warns(UserWarning, match=f"^beta='auto' is .*: {indefinite}"):
        raised = machine(**exact).fit(X, y)
    assert raised.beta_ in 100.0 * 4.0 ** np.arange(1, 6)
    assert np.abs(raised.dual_coef_).max() < 0.01 * np.abs(grown.dual_coef_).max()


def test_automatic_beta_is_raised_until_factors_exist():
    X, y = binary(600, d=3)
    crude = {"preset": "paper_table4", "n_neighbours": 8, "leaf_size": 32}
    crude["kernel"] = lambda A, B: 1e6 * rbf_kernel(A, B, gamma=0.5)
    with pytest.warns(UserWarning, match="beta='auto' is .*: .* too indefinite for beta=100"):
        model = machine(random_state=0, **crude).fit(X, y)
    assert model.beta_ > 100.0
    with pytest.raises(ValueError, match="not positive definite"):
        machine(random_state=0, beta=100.0, **crude).fit(X, y)


def test_wide_sparse_rows_are_never_dense_in_compressed_prediction(peak_bytes):
    """47,236 columns, those of rcv1."""
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 47_236), density=1e-3, rng=rng, format="csr", dtype=np.float32)
    X.data = np.abs(X.data)
    y = np.where(X[:, [0, 1, 2, 3]].sum(axis=1) + X[:, 4:2000].sum(axis=1) > 1.0, 1, 0)
    X[:, :2000] *= 3.0
    model = machine(
        C=10.0, gamma=0.05, beta=1.0, leaf_size=128, predict_with="compressed", random_state=0
    )
    dense = 4 * X.shape[0] * X.shape[1]
    assert peak_bytes(lambda: model.fit(X, y).score(X, y)) < dense / 4
    assert model.score(X, y) > 0.9
    assert model.model_bytes_ < dense / 4
