"""DCSVC: the lemma and the bounds of the paper, and how local machines are combined."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from dual_problem import coefficients
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from small_problems import blobs

from kbench import presets
from kbench.methods import DCSVC, BaggingSVC, CascadeSVC, KernelSVC, SubsampleSVC
from kbench.methods.base.box_svc import Start, solve_problems
from kbench.methods.base.parts import Part
from kbench.methods.divide.dc_svc import start_from
from kbench.methods.divide.division import nested_divisions
from kbench.trace import Trace

EXACT = {"gamma": 0.5, "tol": 1e-9, "dtype": "float64"}


@given(
    seed=st.integers(0, 1000),
    partition=st.sampled_from(["kmeans", "kernel_kmeans", "ghitta", "random"]),
    preset=st.sampled_from([None, "paper", "released"]),
    C=st.sampled_from([0.1, 1.0, 10.0]),
    levels=st.integers(1, 2),
)
@settings(max_examples=10)
def test_masked_kernel_lemma_and_theorem_1(seed, partition, preset, C, levels):
    X, y = blobs(200, seed)
    options = {"partition": partition, "preset": preset, "n_levels": levels, "C": C, **EXACT}
    model = DCSVC(6, combine="naive", random_state=seed, **options).fit(X, y)
    K = rbf_kernel(X, gamma=0.5)
    same = np.equal.outer(model.labels_, model.labels_)
    alpha = np.abs(coefficients(model, 200))

    # Lemma: alpha minimises the dual of the kernel that is zero between clusters.
    Q = K * np.outer(y, y)
    masked = KernelSVC(fit_intercept=False, C=C, kernel="precomputed", tol=1e-9).fit(K * same, y)
    assert model.objective_ == pytest.approx(masked.objective_, rel=1e-8)
    G = (Q * same) @ alpha - 1
    assert np.all(G[alpha == 0] >= -1e-8)
    assert np.all(G[alpha == C] <= 1e-8)

    # Theorem 1: 0 <= f(alpha) - f(alpha*) <= C^2 D / 2, and the distance of the two.
    exact = KernelSVC(fit_intercept=False, C=C, **EXACT).fit(X, y)
    D = K[~same].sum()
    loss = 0.5 * alpha @ Q @ alpha - alpha.sum() - exact.objective_
    assert -1e-6 <= loss <= 0.5 * C**2 * D + 1e-6
    smallest = np.linalg.eigvalsh(K)[0]
    if smallest > 1e-6:
        distance = ((alpha - np.abs(coefficients(exact, 200))) ** 2).sum()
        assert distance <= C**2 * D / smallest + 1e-6


@pytest.mark.parametrize(
    "model",
    [
        CascadeSVC(1),
        SubsampleSVC(1.0),
        BaggingSVC(1),
        *(
            DCSVC(1, partition=partition, combine=combine, n_levels=1)
            for partition in ("kmeans", "kernel_kmeans", "ghitta")
            for combine in ("early", "naive", "bcm", "exact")
        ),
    ],
    ids=str,
)
def test_one_part_is_the_exact_machine(model):
    X, y = blobs()
    exact = KernelSVC(fit_intercept=False, C=2.0, **EXACT).fit(X, y)
    model = clone(model).set_params(C=2.0, **EXACT).fit(X, y)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-9)
    np.testing.assert_array_equal(model.predict(X), exact.predict(X))
    if not isinstance(model, BaggingSVC):  # whose values are votes
        values = model.decision_function(X)
        np.testing.assert_allclose(values, exact.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("partition", ["kmeans", "kernel_kmeans", "ghitta"])
def test_early_prediction_is_the_sum_with_the_masked_kernel(partition, sparse):
    X, y = blobs(900)
    data = sp.csr_array(X) if sparse else X
    train, new = data[:700], data[700:]
    model = DCSVC(7, partition=partition, random_state=0, **EXACT).fit(train, y[:700])
    labels = model._machine.assign(new)
    same = np.equal.outer(labels, model.labels_[model.support_])
    K = rbf_kernel(X[700:], X[model.support_], gamma=0.5)
    expected = (K * same) @ model.dual_coef_[0]
    np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-9)
    np.testing.assert_array_equal(model._machine.assign(train), model.labels_)


def test_early_equals_naive_for_clusters_without_similarity():
    X, y = blobs(spread=40.0)
    options = {"n_clusters": 3, "random_state": 0, **EXACT}
    early = DCSVC(combine="early", **options).fit(X, y)
    naive = DCSVC(combine="naive", **options).fit(X, y)
    separated = ~np.equal.outer(early.labels_, early.labels_)
    if rbf_kernel(X, gamma=0.5)[separated].max() > 1e-12:
        pytest.fail("the clusters of this seed cut a blob")
    np.testing.assert_allclose(early.decision_function(X), naive.decision_function(X), atol=1e-8)


@given(
    seed=st.integers(0, 1000),
    partition=st.sampled_from(["kmeans", "kernel_kmeans", "ghitta", "random"]),
    C=st.sampled_from([0.1, 1.0, 100.0]),
)
@settings(max_examples=6)
def test_exact_is_the_solver_from_zero(seed, partition, C):
    X, y = blobs(300, seed)
    options = {"partition": partition, "n_levels": 3, "branching": 3, "C": C}
    model = DCSVC(3, combine="exact", random_state=seed, **options, **EXACT).fit(X, y)
    zero = KernelSVC(fit_intercept=False, C=C, **EXACT).fit(X, y)
    assert model.objective_ == pytest.approx(zero.objective_, rel=1e-7)
    np.testing.assert_allclose(model.decision_function(X), zero.decision_function(X), atol=1e-5)
    assert model.violation_ <= 1e-9
    np.testing.assert_array_equal(model.levels_[-1].support, model.support_)


def test_loose_levels_take_fewer_steps_to_the_same_machine():
    X, y = blobs()
    options = {"combine": "exact", "C": 10.0, "random_state": 0, **EXACT}
    strict, loose = (DCSVC(4, level_tol=tol, **options).fit(X, y) for tol in (1e-9, 0.1))
    assert loose.n_iter_ < strict.n_iter_
    assert loose.violation_ <= EXACT["tol"]
    assert loose.objective_ == pytest.approx(strict.objective_, rel=1e-8)


def test_conquest_is_cheaper_than_the_solver_from_zero():
    X, y = blobs(3000)
    options = {"C": 10.0, "gamma": 2.0}
    model = DCSVC(4, combine="exact", n_levels=2, random_state=0, **options).fit(X, y)
    zero = KernelSVC(fit_intercept=False, **options).fit(X, y)
    assert model.objective_ == pytest.approx(zero.objective_, rel=1e-5)
    assert model.levels_[-1].kernel_entries < zero.kernel_entries_
    assert sum(level.kernel_entries for level in model.levels_) == model.kernel_entries_


def test_the_gradient_of_the_refined_rows_saves_kernel_values_of_the_conquest():
    X, y = blobs(3000)
    model = DCSVC(4, C=10.0, gamma=2.0, random_state=0)
    problem = model._problem(X, y, None)
    local = model.fit(X, y)
    refined = np.zeros_like(problem.Y)
    rows = local.support_
    kernel = problem.kernel.take(rows)
    options = {"tol": 1e-3, "cache_mb": 200.0}
    results = solve_problems(kernel, problem.Y[rows], problem.C[rows], **options)
    refined[rows, 0] = results[0].alpha
    entries = []
    for start in (start_from(refined, Part(rows, refined[rows], results)), Start(refined)):
        before = problem.kernel.n_entries
        solve_problems(problem.kernel, problem.Y, problem.C, start, **options)
        entries.append(problem.kernel.n_entries - before)
    assert entries[0] < entries[1]


def test_levels_that_do_not_divide_are_skipped_except_with_the_papers_preset():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 5))
    y = np.where(X[:, 0] + rng.normal(size=1500) > 0, 1, -1)
    options = {"n_levels": 3, "n_samples": 100, "partition": "kernel_kmeans", "random_state": 0}
    # The kernel is so narrow that points have no similarity to the sample.
    model = DCSVC(4, combine="exact", gamma=1e4, **options).fit(X, y)
    assert [level.n_clusters for level in model.levels_] == [1]
    paper = DCSVC(4, combine="exact", preset="paper", gamma=1e4, **options).fit(X, y)
    assert len(paper.levels_) == 3 + 2
    zero = KernelSVC(fit_intercept=False, gamma=1e4).fit(X, y)
    for exact in (model, paper):
        assert exact.objective_ == pytest.approx(zero.objective_, rel=1e-9)
    assert model.kernel_entries_ <= zero.kernel_entries_ + 4 * 100 * len(X)
    # The other combinations have no machines but those of the levels.
    early = DCSVC(4, gamma=1e4, **options).fit(X, y)
    assert early.levels_[-1].n_clusters == len(np.unique(early.labels_))


def test_released_preset_refines_and_stops():
    X, y = blobs(400)
    options = {"n_clusters": 4, "n_levels": 2, "combine": "exact", "random_state": 0}
    model = DCSVC(preset="released", **options, **EXACT).fit(X, y)
    assert [level.n_clusters for level in model.levels_[1:]] == [4, 1]
    assert "conquer" not in model.timings_
    before, after = (level.support for level in model.levels_[1:])
    assert np.isin(after, before).all()
    # The machine of the support vectors alone.
    alone = KernelSVC(fit_intercept=False, **EXACT).fit(X[before], y[before])
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-8)


def test_released_clusters_are_nested_and_small_ones_are_not_divided():
    X, y = blobs(1000)
    rng = np.random.RandomState(0)
    problem = DCSVC(gamma=0.5)._problem(X, y, None)
    divisions = nested_divisions(problem, "kmeans", [64, 16, 4], 4, np.arange(1000), rng)
    labels = [labels for _, labels in divisions]
    for fine, coarse in itertools.pairwise(labels):
        assert len(np.unique(np.column_stack([fine, coarse]), axis=0)) == fine.max() + 1
    sizes = [label.max() + 1 for label in labels]
    assert sizes[0] > sizes[1] > sizes[2] == 4
    # 5 * 1000 / 64 = 78.1: clusters with fewer than 79 sampled points are not divided.
    middle = np.bincount(labels[1])
    parts = [len(np.unique(labels[0][labels[1] == c])) for c in range(len(middle))]
    assert all(n == 1 for n, size in zip(parts, middle, strict=True) if size < 79)
    assert all(n > 1 for n, size in zip(parts, middle, strict=True) if size >= 79)


def test_the_true_objective_decreases_from_level_to_level():
    X, y = blobs(600)
    Q = rbf_kernel(X, gamma=0.5) * np.outer(y, y)
    states = []

    def watch(seconds, state):
        if "n_clusters" in state:
            alpha = state["alpha"][:, 0]
            states.append((state["n_clusters"], 0.5 * alpha @ Q @ alpha - alpha.sum()))

    DCSVC(2, combine="exact", n_levels=3, branching=3, random_state=0, **EXACT).fit(
        X, y, trace=Trace(watch)
    )
    clusters, objectives = zip(*states, strict=True)
    assert clusters == (18, 6, 2, 1, 1)
    assert np.all(np.diff(objectives) <= 1e-9)


def test_levels_sample_among_support_vectors():
    X, y = blobs(800, spread=8.0)
    model = DCSVC(4, n_levels=2, n_samples=50, random_state=0, **EXACT).fit(X, y)
    first, second = model.levels_
    assert model.labels_.max() + 1 == second.n_clusters
    assert len(first.support) < 800
    assert first.n_clusters > second.n_clusters
    assert first.cluster_s > 0
    assert second.train_s > 0


def test_clusters_may_have_one_class_or_lack_a_class():
    X, y = load_iris(return_X_y=True)
    model = DCSVC(10, gamma=0.5, C=10.0, random_state=0).fit(X, y)
    per_cluster = [len(np.unique(y[model.labels_ == c])) for c in range(model.n_clusters_)]
    assert 1 in per_cluster
    assert model.score(X, y) > 0.97


@pytest.mark.parametrize("partition", ["kmeans", "kernel_kmeans", "ghitta"])
def test_duplicates_leave_clusters_empty(partition):
    X = np.repeat(np.eye(3), 20, axis=0)
    y = np.tile([0, 1], 30)
    model = DCSVC(8, partition=partition, n_levels=1, random_state=0).fit(X, y)
    assert model.n_clusters_ <= 3
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("combine", ["early", "naive", "bcm"])
def test_a_time_limit_warns_and_leaves_a_usable_model(combine):
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match="stopped by max_time"):
        model = DCSVC(4, combine=combine, max_time=0.0, random_state=0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("parameters", [{"partition": "kmeans"}, {"combine": "bcm"}])
def test_partitions_and_combinations_that_need_features_refuse_a_precomputed_kernel(parameters):
    X, y = blobs()
    options = {"n_clusters": 4, "partition": "kernel_kmeans", "kernel": "precomputed"}
    with pytest.raises(ValueError, match="kernel='precomputed'"):
        DCSVC(**options | parameters).fit(rbf_kernel(X), y)


@pytest.mark.parametrize("combine", ["early", "exact"])
def test_presets_set_defaults_and_typed_values_win(combine):
    X, y = blobs(200)
    options = {"combine": combine, "C": 10.0, "gamma": 0.5, "random_state": 0}
    table = presets.DCSVM if combine == "exact" else presets.DCSVM_LOCAL
    for preset, values in table.items():
        by_name = DCSVC(preset=preset, **options).fit(X, y)
        spelt_out = DCSVC(preset=preset, **values, **options).fit(X, y)
        np.testing.assert_array_equal(by_name.dual_coef_, spelt_out.dual_coef_)
    for n in (1, 2):
        model = DCSVC(8, n_levels=n, preset="paper", **options).fit(X, y)
        assert len(model.levels_) == n + 2 * (combine == "exact")
    tolerances = [
        DCSVC(8, tol=tol, preset="paper", **options).fit(X, y).violation_ for tol in (0.5, 1e-4)
    ]
    assert tolerances[1] <= 1e-4 < tolerances[0] <= 0.5
