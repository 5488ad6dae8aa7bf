"""Ridge machines on rows in chunks are those of the same rows in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from chunk_rows import N, chunked, in_the_order_of_the_sample, rows_of
from sklearn.base import clone
from sklearn.metrics import r2_score

from kbench.approximation import (
    BKA,
    MEKA,
    Fastfood,
    HSSMatrix,
    Nystrom,
    RandomFourierFeatures,
    SpectralNystrom,
)
from kbench.chunked import ChunkedRows
from kbench.errors import DataError
from kbench.methods import (
    ApproximateRidge,
    ApproximateRidgeClassifier,
    DCKernelRidge,
    DCKernelRidgeClassifier,
)

PARTS = {
    "fourier": RandomFourierFeatures(80, gamma=0.3),
    "fastfood": Fastfood(64, gamma=0.3),
    "nystrom": Nystrom(40, gamma=0.3),
    "k-means nystrom": Nystrom(40, landmarks="kmeans", gamma=0.3),
    "spectral nystrom": SpectralNystrom(30, gamma=0.3),
    "meka": MEKA(15, n_clusters=3, gamma=0.3),
    "meka, sampled links": MEKA(15, n_clusters=3, gamma=0.3, preset="paper", psd=True),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("targets", ["real", "several", "two", "three"])
def test_streamed_normal_equations_are_the_machine_of_the_rows_in_memory(name, targets):
    X, y = rows_of(targets=targets)
    real = targets in ("real", "several")
    cls = ApproximateRidge if real else ApproximateRidgeClassifier
    model = cls(PARTS[name], alpha=0.1, error_rows=0, random_state=0)
    assert model.accepts_chunks
    found = clone(model).fit(chunked(X, y))
    twin = clone(model).fit(*in_the_order_of_the_sample(X, y))
    values = [m.predict(X) if real else m.decision_function(X) for m in (found, twin)]
    np.testing.assert_allclose(values[0], values[1], atol=2e-4 * np.abs(values[1]).max())
    assert found.model_bytes_ == twin.model_bytes_
    assert found.score(chunked(X, y)) == pytest.approx(found.score(X, y), abs=1e-12)
    again = clone(model).fit(ChunkedRows.of_arrays(X, y, memory_mb=0.01))
    np.testing.assert_array_equal(again.predict(X), found.predict(chunked(X, y, sizes=(7,))))


@pytest.mark.parametrize("alpha", [0.1, 1e-6])
def test_indefinite_links_are_clipped_as_in_memory(alpha):
    X, y = rows_of(300)
    part = MEKA(20, n_clusters=4, gamma=0.05, preset="paper", rho=0.0, pinv_cut=1e-6)
    model = ApproximateRidge(part, alpha=alpha, error_rows=0, random_state=0)
    with pytest.warns(RuntimeWarning, match="negative ones are replaced by zero"):
        twin = clone(model).fit(*in_the_order_of_the_sample(X, y))
    with pytest.warns(RuntimeWarning, match="negative ones are replaced by zero"):
        found = clone(model).fit(chunked(X, y))
    wanted = twin.predict(X)
    np.testing.assert_allclose(found.predict(X), wanted, atol=1e-2 * np.abs(wanted).max())


def test_defaults_of_bandwidth_and_ridge_are_those_of_all_rows():
    X, y = rows_of()
    for model in (ApproximateRidge(random_state=0), DCKernelRidge(3, random_state=0)):
        found, twin = clone(model).fit(chunked(X, y)), clone(model).fit(X, y)
        assert found.alpha_ == pytest.approx(twin.alpha_, rel=4.1)  # two steps of its grid
        assert found.score(X, y) == pytest.approx(twin.score(X, y), abs=0.05)


@pytest.mark.parametrize("targets", ["real", "three"])
def test_machines_of_bka_are_those_of_their_clusters(targets):
    X, y = rows_of(targets=targets)
    cls = ApproximateRidge if targets == "real" else ApproximateRidgeClassifier
    model = cls(BKA(5, gamma=0.3), alpha=0.1, error_rows=0, random_state=0)
    found = clone(model).fit(chunked(X, y))
    labels = found._machine.assign(X)
    assert len(np.unique(labels)) == 5
    for cluster in range(5):
        own = np.flatnonzero(labels == cluster)
        if targets != "real" and len(np.unique(y[own])) < 3:
            continue  # alone, these rows are another problem
        alone = cls(BKA(1, gamma=0.3), alpha=0.1, error_rows=0).fit(X[own], y[own])
        values = [m._values(X[own]) for m in (found, alone)]
        np.testing.assert_array_equal(*values)
    assert found.kernel_numbers_ == (np.bincount(labels) ** 2).sum()


def test_a_block_too_large_for_the_memory_is_divided():
    X, y = rows_of()
    model = ApproximateRidge(BKA(2, gamma=0.3), alpha=0.1, random_state=0)
    with pytest.warns(UserWarning, match="was divided into"):
        found = model.fit(chunked(X, y, memory_mb=2 * 12 * 150**2 / 2**20))
    assert np.bincount(found._machine.assign(X)).max() <= 150
    assert "does not fit into memory_mb" in found.notes_[0]


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("targets", ["real", "several", "two", "three"])
def test_random_subsets_are_those_of_the_rows_in_memory(storage, targets):
    X, y = rows_of(targets=targets)
    cls = DCKernelRidge if targets in ("real", "several") else DCKernelRidgeClassifier
    model = cls(4, alpha=0.1, gamma=0.3, random_state=0)
    twin = clone(model).fit(X, y)
    X = sp.csr_matrix(X) if storage == "csr" else X
    found = clone(model).fit(chunked(X, y, sizes=(99,)))
    np.testing.assert_allclose(found._values(X), twin._values(X), atol=2e-5)
    assert found.kernel_numbers_ == twin.kernel_numbers_
    sizes = [len(part) for part in model._subsets(N)]
    assert found._machine.machines.n_centres.tolist() == sizes


def test_scores_of_chunks_are_those_of_scikit_learn():
    X, y = rows_of(targets="several")
    model = DCKernelRidge(3, random_state=0).fit(X, y)
    assert model.score(chunked(X, y)) == pytest.approx(r2_score(y, model.predict(X)), abs=1e-12)
    constant = np.ones(len(X))
    model = DCKernelRidge(3, random_state=0).fit(X, constant + y[:, 0])
    assert model.score(chunked(X, constant)) == r2_score(constant, model.predict(X))


def test_settings_and_targets_that_do_not_work_are_refused():
    X, y = rows_of()
    for model in (
        ApproximateRidge(HSSMatrix()),
        ApproximateRidge(solver="cg"),
        ApproximateRidge(BKA(2, partition="spectral")),
        ApproximateRidgeClassifier(probability=True),
    ):
        assert not model.accepts_chunks
        with pytest.raises(ValueError, match="needs all rows in memory, not in chunks"):
            model.fit(chunked(X, y))
    with pytest.raises(ValueError, match="contain their targets"):
        ApproximateRidge().fit(chunked(X, y), y)
    bad = y.copy()
    bad[95] = np.nan
    with pytest.raises(DataError, match="row 96 has the target nan"):
        ApproximateRidge().fit(chunked(X, bad))
    with pytest.raises(DataError, match="targets have to be numbers"):
        ApproximateRidge().fit(chunked(X, np.array(["a"] * N)))
