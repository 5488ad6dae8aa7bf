"""Diagnostics of figures: bounds hold, curves end at the exact machine, spectra are right."""

import numpy as np
import pytest
import scipy.linalg
from dual_problem import coefficients
from sklearn.metrics.pairwise import rbf_kernel
from small_problems import blobs

from kbench.approximation import BKA
from kbench.methods import (
    DCSVC,
    ApproximateRidgeClassifier,
    BlockSpectra,
    DivisionBound,
    KernelSpectrum,
    KernelSVC,
    SupportCurves,
)
from kbench.trace import Trace


def told(model, X, y):
    states = []
    model.fit(X, y, trace=Trace(lambda seconds, state: states.append(state)))
    return states


@pytest.mark.parametrize("partition", ["kernel_kmeans", "random"])
def test_loss_is_below_the_bound_and_both_are_those_of_the_definition(partition):
    X, y = blobs()
    model = DivisionBound((1, 4, 16), partition=partition, gamma=0.5, C=2.0, random_state=0)
    states = told(model, X, y)
    losses = np.array([state["loss"] for state in states])
    bounds = np.array([state["bound"] for state in states])
    assert [state["n_clusters"] for state in states] == [1, 4, 16]
    np.testing.assert_array_equal(model.losses_, losses)
    assert set(model.timings_) == {"prepare", "exact", "divide"}
    assert losses[0] == pytest.approx(0.0, abs=1e-4)
    assert bounds[0] == 0.0
    assert np.all(losses[1:] > 0)
    assert np.all(losses <= bounds + 1e-4)

    options = {"gamma": 0.5, "C": 2.0, "tol": 1e-5, "dtype": "float64"}
    divided = DCSVC(
        4, combine="naive", partition=partition, n_levels=1, random_state=0, **options
    ).fit(X, y)
    K = rbf_kernel(X, gamma=0.5)
    alpha = np.abs(coefficients(divided, len(y)))
    f = 0.5 * (alpha * y) @ K @ (alpha * y) - alpha.sum()
    assert losses[1] == pytest.approx(f - model.objective_, rel=1e-6)
    between = ~np.equal.outer(divided.labels_, divided.labels_)
    assert bounds[1] == pytest.approx(0.5 * 4.0 * K[between].sum(), rel=1e-9)


@pytest.mark.parametrize("solver", ["dcsvm", "cascade_svm", "kernel_svc", "shrinking"])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_curves_compare_with_the_reference(solver, kernel):
    X, y = blobs(300)
    X /= 10.0
    options = {"kernel": kernel, "gamma": 2.0, "C": 0.1 if kernel == "poly" else 2.0, "tol": 1e-4}
    model = SupportCurves(solver, reference_tol=1e-6, random_state=0, **options)
    states = told(model, X, y)
    final = states[-1]
    reference = set(model.reference_.support_)
    found = set(model.support_)
    assert final["precision"] == len(found & reference) / len(found)
    assert final["recall"] == len(found & reference) / len(reference)
    assert all(later["solver_s"] >= 0 for later in states)
    if solver != "cascade_svm":
        assert final["precision"] > 0.9
        assert final["recall"] > 0.9
        assert abs(final["objective_error"]) < 1e-4
        best = model.reference_.objective_
        assert final["objective_error"] == (final["objective"] - best) / abs(best)
    if solver == "cascade_svm":
        assert [state["n_parts"] for state in states] == [256, 128, 64, 32, 16, 8, 4, 2, 1]
    if solver == "dcsvm":
        parts = [state["n_parts"] for state in states if "n_parts" in state]
        assert parts[0] > parts[1] > parts[2] > parts[-1] == 1
    if solver in ("kernel_svc", "shrinking"):
        exact = KernelSVC(fit_intercept=False, **options).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), exact.predict(X))


def test_spectrum_and_heat_maps_are_those_of_the_matrix():
    X, y = blobs(90)
    model = KernelSpectrum(5, resolution=20, gamma=0.5, random_state=0)
    states = told(model, X, y)
    K = rbf_kernel(X, gamma=0.5)
    np.testing.assert_allclose(
        model.singular_values_, np.linalg.svd(K, compute_uv=False), atol=1e-10
    )
    np.testing.assert_array_equal(
        [state["singular_value"] for state in states if "singular_value" in state],
        model.singular_values_,
    )
    assert model.heat_map_.shape == (20, 20)
    edges = np.arange(21) * 90 // 20
    cell = K[edges[3] : edges[4], edges[19] : edges[20]]
    assert model.heat_map_[3, 19] == pytest.approx(cell.mean())
    np.testing.assert_array_equal(np.sort(model.order_), np.arange(90))
    entries = [state["clustered_entry"] for state in states if "entry" in state]
    np.testing.assert_array_equal(entries, model.clustered_heat_map_.ravel())
    # Clusters bring large entries to the diagonal.
    near = np.abs(np.subtract.outer(np.arange(20), np.arange(20))) < 3
    assert model.clustered_heat_map_[near].mean() > 1.5 * model.heat_map_[near].mean()
    # One cell an entry where there are as many cells as rows.
    exact = KernelSpectrum(1, resolution=1000, gamma=0.5).fit(X, y)
    np.testing.assert_allclose(exact.heat_map_, K, atol=1e-12)
    np.testing.assert_array_equal(exact.heat_map_, exact.clustered_heat_map_)


@pytest.mark.parametrize("cls", [DivisionBound, KernelSpectrum, SupportCurves])
def test_two_classes_only(cls):
    X, y = blobs()
    y[:10] = 7
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        cls().fit(X, y)


def test_ranks_and_angles_are_those_of_the_blocks():
    X, y = blobs()
    model = BlockSpectra(BKA(4, gamma=0.5), n_angles=6, random_state=0)
    states = told(model, X, y)
    same = ApproximateRidgeClassifier(BKA(4, gamma=0.5), alpha=model.alpha, random_state=0)
    np.testing.assert_array_equal(model.predict(X), same.fit(X, y).predict(X))
    assert {"cluster", "blocks", "spectra", "solve"} == set(model.timings_)
    K = rbf_kernel(X, gamma=0.5)
    for s in range(4):
        for t in range(4):
            block = K[np.ix_(model.labels_ == s, model.labels_ == t)]
            tol = max(block.shape) * np.linalg.norm(block, 2) * 1e-6
            assert model.ranks_[s, t] == np.linalg.matrix_rank(block, tol)
            if s != t:
                own = K[np.ix_(model.labels_ == s, model.labels_ == s)]
                bases = [scipy.linalg.svd(matrix)[0][:, :6] for matrix in (own, block)]
                cosines = np.sort(np.cos(scipy.linalg.subspace_angles(*bases)))[::-1]
                np.testing.assert_allclose(model.cosines_[s, t], cosines, atol=1e-6)
    ranks = [(s["row"], s["column"], s["rank"]) for s in states if "rank" in s]
    assert len(ranks) == 16
    assert all(model.ranks_[row, column] == rank for row, column, rank in ranks)
    np.testing.assert_array_equal(model.ranks_, model.ranks_.T)
    assert np.isnan(model.cosines_[np.eye(4, dtype=bool)]).all()
    told_cosines = [s["cosine"] for s in states if "cosine" in s]
    np.testing.assert_array_equal(told_cosines, model.cosines_[~np.eye(4, dtype=bool)].ravel())
