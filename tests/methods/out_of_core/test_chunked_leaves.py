"""Trained landmarks on rows in chunks are those of the fit of the same rows in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from chunk_rows import chunked, rows_of
from sklearn.base import clone

from kbench.errors import KbenchError
from kbench.methods import DCPredTrainedClassifier, DCPredTrainedRegressor


def classifier(**parameters):
    options = {"n_leaves": 5, "gamma": 0.3, "C": 4.0, "epochs": 2, "min_rows": 10}
    return DCPredTrainedClassifier(**{**options, "random_state": 0, **parameters})


def regressor(**parameters):
    options = {"gamma": 0.3, "epochs": 3, "min_rows": 10, "random_state": 0}
    return DCPredTrainedRegressor(4, **{**options, **parameters})


@pytest.mark.parametrize("router", ["variance", "classes"])
@pytest.mark.parametrize("target", ["leaf", "labels"])
def test_a_classifier_has_the_bits_of_the_fit_in_memory(router, target):
    X, y = rows_of(targets="two" if target == "leaf" else "three")
    model = classifier(router=router, target=target, class_weight="balanced")
    twin, found = clone(model).fit(X, y), clone(model).fit(chunked(X, y))
    values = twin.decision_function(X)
    np.testing.assert_array_equal(found.decision_function(X), values)
    np.testing.assert_array_equal(found.decision_function(chunked(X, y)), values)
    np.testing.assert_array_equal(found.predict(chunked(X, y)), twin.predict(X))
    assert found.score(chunked(X, y)) == twin.score(X, y)
    assert found.leaf_sizes_.tolist() == np.bincount(twin.labels_).tolist()
    assert found.kernel_entries_ == twin.kernel_entries_
    assert found.prediction_flops_ == twin.prediction_flops_


@pytest.mark.parametrize("router", ["variance", "targets"])
def test_a_regressor_is_that_of_memory_up_to_rounding(router):
    X, y = rows_of()
    model = regressor(router=router)
    twin, found = clone(model).fit(X, y), clone(model).fit(chunked(X, y))
    assert found.leaf_sizes_.tolist() == twin.leaf_sizes_.tolist()
    np.testing.assert_allclose(found.predict(X), twin.predict(X), atol=1e-3 * y.std())
    np.testing.assert_array_equal(found.predict(chunked(X, y)), found.predict(X))
    assert found.score(chunked(X, y)) == pytest.approx(found.score(X, y), abs=1e-12)
    with pytest.raises(ValueError, match="one target for each row, it has 2"):
        clone(model).fit(chunked(*rows_of(targets="several")))


def test_neither_chunks_nor_storage_nor_jobs_change_the_model():
    X, y = rows_of(targets="two")
    X += 100.0  # far from the origin, so that rows are moved before they are rounded
    wanted = classifier().fit(X, y).decision_function(X)
    read = chunked(sp.csr_matrix(X), y, sizes=(99,))
    for rows, n_jobs in ((chunked(X, y, sizes=(7, 0)), 2), (chunked(X, y, memory_mb=0.5), None)):
        found = classifier(n_jobs=n_jobs).fit(rows)
        np.testing.assert_array_equal(found.decision_function(X), wanted)
    # CSR rows have no offset, so they are rounded to float32 where they are.
    np.testing.assert_allclose(
        classifier().fit(read).score(X, y), classifier().fit(X, y).score(X, y), atol=0.05
    )


def test_a_tree_of_a_sample_trains_every_row(monkeypatch):
    X, y = rows_of(n=4000, targets="two")
    monkeypatch.setattr("kbench.methods.fast_prediction.trained_leaves._SAMPLE_ROWS", 300)
    found = classifier().fit(chunked(X, y))
    assert found.leaf_sizes_.sum() == 4000
    assert found.n_leaves_ == 5
    assert found.score(X, y) > classifier().fit(X, y).score(X, y) - 0.03


def test_leaves_too_large_for_the_memory_are_divided():
    X, y = rows_of(targets="two")
    rows = chunked(X, y, memory_mb=0.2)
    with pytest.warns(UserWarning, match="n_leaves is 8, not 1, because larger leaves do not fit"):
        found = classifier(n_leaves=1).fit(rows)
    assert found.n_leaves_ == 8
    assert "do not fit into memory_mb=0.2" in found.notes_[0]
    with pytest.raises(KbenchError, match="the tree divides no further with min_rows=300"):
        classifier(n_leaves=1, min_rows=300).fit(rows)


@pytest.mark.parametrize(
    "parameters",
    [{"target": "global"}, {"probability": True}, {"target_cost": 100.0}, {"max_time": 1.0}],
    ids=str,
)
def test_settings_that_need_all_rows_are_refused(parameters):
    model = classifier(**parameters)
    assert not model.accepts_chunks
    with pytest.raises(ValueError, match=r"needs all rows in memory|is not for rows in chunks"):
        model.fit(chunked(*rows_of(targets="two")))
