"""KernelSVC and KernelSVR by the interior-point method: which problems, and their solutions."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from dual_problem import box, coefficients, violation
from sklearn.datasets import load_breast_cancer, load_wine, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

from kbench.methods import KernelSVC, KernelSVR, SupportCurves
from kbench.methods.exact import interior
from kbench.solvers.small import dual, exact_optimum, face
from kbench.trace import Trace

METHOD = "interior-point"


def uses(model):
    return any(METHOD in note for note in model.notes_)


def many(n=2400, d=4, regression=False, classes=2):
    if regression:
        X, y = make_regression(n, d, noise=5.0, random_state=0)
        return X, y / y.std()
    return make_classification(
        n, d, n_informative=3, n_redundant=0, n_classes=classes, flip_y=0.05, random_state=0
    )


def without(monkeypatch):
    """Fits go the way that they would if the method failed."""
    for module in (interior, dual):
        solve = module.solve_interior
        failed = lambda *a, solve=solve, **k: replace(solve(*a, **k), stop_reason="failed")  # noqa: E731
        monkeypatch.setattr(module, "solve_interior", failed)


def without_ends(monkeypatch):
    """No small problem ends before its steps have cost as much as the method."""
    monkeypatch.setattr(exact_optimum, "to_optimum", lambda *_: face.NOT_DEFINITE)
    monkeypatch.setattr(exact_optimum, "_COMPILED", np.inf)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4])
def test_a_table_as_shipped_is_solved_at_any_C(C, fit_intercept, monkeypatch):
    without_ends(monkeypatch)
    X, y = load_breast_cancer(return_X_y=True)
    model = KernelSVC(kernel="linear", C=C, fit_intercept=fit_intercept).fit(X, y)
    assert model.converged_
    assert uses(model)
    z, beta = np.where(y == 1, 1.0, -1.0), coefficients(model, len(X))
    assert np.all(z * beta >= 0.0)
    assert np.abs(beta).max() <= C
    # The weights of the features are sums of few digits beside those of the coefficients.
    w = (X - X.mean(axis=0)).T @ beta if fit_intercept else X.T @ beta
    b = model.intercept_[0] + (X.mean(axis=0) @ w if fit_intercept else 0.0)
    values = (X - X.mean(axis=0) if fit_intercept else X) @ w + b
    primal = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - z * values).sum()
    # Rows that are not centred are larger, and float64 ends earlier (docs/solver.md).
    least = 1e-6 if fit_intercept or C <= 100.0 else 2e-5
    assert primal - (np.abs(beta).sum() - 0.5 * w @ w) <= least * primal


@pytest.mark.parametrize("kernel", ["poly", "rbf"])
def test_a_small_problem_of_any_kernel_is_solved_in_bounded_steps(kernel, monkeypatch):
    without_ends(monkeypatch)
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200], y[:200]
    model = KernelSVC(kernel=kernel, C=1e6, gamma=1e-6 if kernel == "rbf" else "scale").fit(X, y)
    assert model.converged_
    assert uses(model)
    assert model.n_iter_[0] <= dual.steps_before(200, 200**3 / 3) + 100
    K = pairwise_kernels(X, metric=kernel, filter_params=True, gamma=model._gamma, coef0=0.0)
    z, beta = np.where(y == 1, 1.0, -1.0), coefficients(model, len(X))
    assert violation(K, z, beta, *box(z, 1e6)) <= 2e-3


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes_on_raw_columns(multi_class, monkeypatch):
    without_ends(monkeypatch)
    X, y = load_wine(return_X_y=True)
    model = KernelSVC(kernel="linear", C=1e3, multi_class=multi_class).fit(X, y)
    assert model.converged_
    assert uses(model)
    assert model.score(X, y) == 1.0
    assert model.duality_gap_ <= 1e-6 * abs(model.objective_)


PROBLEMS = {
    "linear": (KernelSVC(kernel="linear"), {}),
    "degree 2": (KernelSVC(kernel="poly", degree=2, coef0=1.0), {}),
    "no intercept": (KernelSVC(kernel="linear", fit_intercept=False), {}),
    "class weights": (KernelSVC(kernel="linear", class_weight={0: 3.0}, C=0.1), {}),
    "three classes": (KernelSVC(kernel="linear"), {"classes": 3, "n": 3600}),
    "against the rest": (KernelSVC(kernel="linear", multi_class="ovr"), {"classes": 3}),
    "regression": (KernelSVR(kernel="linear"), {"regression": True, "n": 3200}),
    "regression, epsilon 0": (
        KernelSVR(kernel="linear", epsilon=0.0, C=0.01),
        {"regression": True, "n": 3200},
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_kernel_of_low_rank_is_solved_as_by_the_dual_engine(name, monkeypatch):
    model, size = PROBLEMS[name]
    X, y = many(**size)
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    model.fit(X, y, sample_weight=weight)
    assert model.converged_
    assert uses(model)
    assert model.kernel_entries_ == 0
    assert weight[model.support_].min() != 0.0
    objective, values = model.objective_, np.ravel(model.coef_) if name == "linear" else None
    assert model.duality_gap_ <= 1e-8 * abs(objective)
    without(monkeypatch)
    other = type(model)(**(model.get_params() | {"tol": 1e-5})).fit(X, y, sample_weight=weight)
    assert not uses(other)
    assert other.converged_
    assert np.isclose(objective, other.objective_, rtol=1e-6)
    if values is not None:
        assert np.allclose(values, np.ravel(other.coef_), atol=1e-4)


def test_sparse_rows_of_few_columns_are_solved_as_dense_ones():
    X, y = many()
    X[np.abs(X) < 0.5] = 0.0
    dense = KernelSVC(kernel="linear").fit(X, y)
    sparse = KernelSVC(kernel="linear").fit(sp.csr_array(X), y)
    assert uses(dense)
    assert uses(sparse)
    assert np.isclose(dense.objective_, sparse.objective_, rtol=1e-12)
    assert np.allclose(dense.decision_function(X), sparse.decision_function(sp.csr_array(X)))


def test_a_failure_leaves_the_solution_to_the_other_engines(monkeypatch):
    X, y = load_wine(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    without_ends(monkeypatch)
    expected = KernelSVC(kernel="linear", C=0.1).fit(X, y)
    assert uses(expected)
    without(monkeypatch)
    model = KernelSVC(kernel="linear", C=0.1).fit(X, y)
    assert model.converged_
    assert not uses(model)
    assert np.isclose(model.objective_, expected.objective_, rtol=1e-4)


def test_indefinite_kernels_keep_the_other_engines():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        sigmoid = KernelSVC(kernel="sigmoid", C=100.0, max_iter=30_000).fit(X, y)
        values = np.tanh(0.2 * X[:200] @ X[:200].T + 1.0)
        given = KernelSVC(kernel="precomputed", C=1e4, max_iter=60_000).fit(values, y[:200])
    assert not uses(sigmoid)
    assert not uses(given)


def test_given_values_that_are_semidefinite_are_solved_in_bounded_steps(monkeypatch):
    without_ends(monkeypatch)
    X, y = load_wine(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    X = X - X.mean(axis=0)
    given = KernelSVC(kernel="precomputed", C=1.0).fit(X @ X.T, y)
    linear = KernelSVC(kernel="linear", C=1.0).fit(X, y)
    assert given.converged_
    assert uses(given)
    assert uses(linear)
    assert np.isclose(given.objective_, linear.objective_, rtol=1e-8)


def test_a_class_of_a_single_row_is_solved():
    X, y = many()
    y = np.zeros(len(X))
    y[7] = 1
    model = KernelSVC(kernel="linear", C=10.0).fit(X, y)
    assert model.converged_
    assert uses(model)
    assert model.violation_ <= 1e-3
    assert np.isclose(model.dual_coef_.sum(), 0.0, atol=1e-9)


def test_the_trace_hears_of_it():
    states = []
    X, y = many()
    KernelSVC(kernel="linear").fit(X, y, trace=Trace(lambda seconds, state: states.append(state)))
    said = [state for state in states if "solver" in state]
    assert [state["solver"] for state in said] == ["interior_point"]
    # As the large-problem solver, whose states `SupportCurves` reads.
    assert said[0]["alpha"].shape == (len(X),)
    assert np.count_nonzero(said[0]["alpha"]) == said[0]["n_support"]


@pytest.mark.parametrize("n", [300, 2400])
def test_support_curves_follow_it(n):
    X, y = many(n)
    recall = []
    SupportCurves("kernel_svc", C=1.0, kernel="linear", reference_tol=1e-6).fit(
        X, y, trace=Trace(lambda seconds, state: recall.append(state["recall"]))
    )
    assert recall[-1] > 0.99


def test_a_limit_on_steps_or_time_is_kept():
    X, y = many()
    for limit in ({"max_iter": 3}, {"max_time": 0.0}):
        with pytest.warns(ConvergenceWarning):
            model = KernelSVC(kernel="linear", **limit).fit(X, y)
        assert not model.converged_
        assert not uses(model)
        assert "max_iter" not in limit or model.n_iter_[0] <= 3
