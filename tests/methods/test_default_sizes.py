"""Sizes that nobody set follow from the number of rows, in memory and in chunks alike."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from kbench.approximation import BKA, MEKA, Nystrom, SpectralNystrom
from kbench.chunked import ChunkedRows
from kbench.methods import (
    DCSVC,
    ApproximateRidge,
    BaggingSVC,
    CascadeSVC,
    DCKernelRidge,
    DCPredClassifier,
    DCPredRegressor,
    DCPredTrainedClassifier,
    EigenPro3Classifier,
    FalkonRegressor,
    LinearizedSVC,
)
from kbench.methods.base.sizes import number_of_groups
from kbench.methods.divide import dc_svc, early_svc_chunks
from kbench.methods.fast_prediction import trained_leaves


@pytest.mark.parametrize(
    ("n", "groups"),
    [(1, 1), (999, 1), (1000, 2), (32_000, 64), (256_000, 64), (260_000, 65), (4_000_000, 1000)],
)
def test_groups_have_500_rows_and_when_there_are_64_they_grow_to_4000(n, groups):
    assert number_of_groups(None, n) == groups
    assert number_of_groups(7, n) == 7


def test_parts_of_a_ridge_model_stay_factorable():
    assert number_of_groups(None, 160_000, 10, 16_384) == 10
    assert number_of_groups(None, 1_638_400, 10, 16_384) == 100


def rows_of_two_classes(n):
    X = np.random.default_rng(0).random((n, 2))
    return X, np.where(X[:, 0] + X[:, 1] > 1.0, 1, -1)


@pytest.mark.parametrize(
    ("model", "name", "used"),
    [
        (DCSVC(), "n_clusters", 6),
        (CascadeSVC(), "n_parts", 60),
        (BaggingSVC(), "n_estimators", 60),
        (DCKernelRidge(), "n_parts", 6),
        (FalkonRegressor(), "n_components", 60),
        (EigenPro3Classifier(max_iter=1000), "n_components", 60),
        (LinearizedSVC(Nystrom()), "feature_map__n_components", 60),
        (ApproximateRidge(MEKA(5)), "approximation__n_clusters", 60),
        (ApproximateRidge(BKA()), "approximation__n_clusters", 60),
        (ApproximateRidge(MEKA(n_clusters=2)), "approximation__rank", 60),
        (ApproximateRidge(SpectralNystrom()), "approximation__rank", 60),
        *((cls(n_landmarks=1), "n_leaves", 6) for cls in (DCPredClassifier, DCPredRegressor)),
        *((cls(1), "n_landmarks", 60) for cls in (DCPredClassifier, DCPredRegressor)),
    ],
    ids=str,
)
def test_sizes_above_the_number_of_rows_are_reduced_with_a_warning(model, name, used):
    X, y = rows_of_two_classes(60)
    model = clone(model).set_params(**{name: 61}, random_state=0)
    said = rf"{name.rpartition('__')[2]}=61 is more than .*60.*[:;] .*{used}( |$)"
    with pytest.warns(UserWarning, match=said):
        larger = clone(model).fit(X, y)
    exact = model.set_params(**{name: used}).fit(X, y)
    np.testing.assert_array_equal(larger.predict(X), exact.predict(X))


def test_more_clusters_than_sampled_points_are_clustered_on_a_larger_sample(monkeypatch):
    grown = partial(number_of_groups, max_rows=3)
    monkeypatch.setattr(dc_svc, "number_of_groups", grown)
    monkeypatch.setattr(dc_svc, "MAX_GROUPS", 4)
    X, y = rows_of_two_classes(4500)
    model = DCSVC(n_levels=1, random_state=0)
    # A number that the sample does not hold is refused where the user sets both.
    with pytest.raises(ValueError, match="n_clusters=1500 is more than n_samples=1000"):
        DCSVC(1500, n_samples=1000, n_levels=1).fit(X, y)
    assert model.fit(X, y).n_clusters_ > 400


@pytest.mark.parametrize("known", [True, False])
def test_chunks_have_the_number_of_clusters_of_rows_in_memory(monkeypatch, known):
    grown = partial(number_of_groups, max_rows=60)
    monkeypatch.setattr(dc_svc, "number_of_groups", grown)
    monkeypatch.setattr(early_svc_chunks, "number_of_groups", grown)
    X, y = rows_of_two_classes(600)
    chunks = ChunkedRows(lambda _: iter([(X, y)]), n_features=2, n_rows=600 if known else None)
    in_memory = DCSVC(n_levels=1, random_state=0).fit(X, y)
    assert in_memory.n_clusters_ == 10
    once = DCSVC(n_levels=1, random_state=0).fit(chunks)
    assert once.n_clusters_ == 10
    # Clusters of a size that nobody set are solved as they are.
    by_default = DCSVC(random_state=0).fit(chunks)
    assert by_default.n_iter_ == once.n_iter_
    assert by_default.kernel_entries_ == once.kernel_entries_
    assert DCSVC(n_levels=2, random_state=0).fit(chunks).n_iter_ != once.n_iter_


def test_trained_leaves_of_chunks_follow_from_the_number_of_rows(monkeypatch):
    monkeypatch.setattr(trained_leaves, "MAX_MEAN_LEAF_ROWS", 60)
    X, y = rows_of_two_classes(600)
    model = DCPredTrainedClassifier(epochs=1, random_state=0)
    assert model.fit(ChunkedRows.of_arrays(X, y)).n_leaves_ == 10
