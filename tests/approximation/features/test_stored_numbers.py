"""Equal memory: the rank that keeps a given count of numbers."""

import numpy as np
import pytest

from kbench.approximation import MEKA, RandomFeatures, SpectralNystrom
from kbench.approximation.features.stored_numbers import chosen_rank

SEED = {"rank": None, "random_state": 0, "gamma": 0.5}
METHODS = {
    "nystrom": SpectralNystrom(**SEED),
    "kmeans": SpectralNystrom(landmarks="kmeans", **SEED),
    "randomised": SpectralNystrom(eigensolver="randomized", **SEED),
    "ensemble": SpectralNystrom(n_experts=3, **SEED),
    "svd": SpectralNystrom(n_landmarks="all", **SEED),
    "frequencies": RandomFeatures(**SEED),
    "phases": RandomFeatures(form="phase", **SEED),
    "fastfood": RandomFeatures(features="fastfood", **SEED),
    "meka": MEKA(n_clusters=5, preset="paper", **SEED),
    "meka, links dropped": MEKA(n_clusters=5, preset="paper", eps=0.2, **SEED),
    "meka_psd": MEKA(n_clusters=5, preset="paper", psd=True, **SEED),
    "meka_galerkin": MEKA(n_clusters=5, **SEED),
}


def rows(n=3000):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 6)) + 2.0 * rng.integers(0, 3, size=(n, 1))


@pytest.mark.parametrize("part", METHODS.values(), ids=METHODS)
def test_numbers_kept_are_those_of_the_budget_to_two_per_cent(part):
    X = rows()
    matrix = part.set_params(numbers_per_row=64).fit(X).kernel_matrix(X)
    assert 0.98 * 64 * len(X) <= matrix.n_parameters_ <= 64 * len(X)


def test_meka_of_a_budget_is_meka_of_the_rank_that_it_allows():
    X = rows(500)
    part = MEKA(None, numbers_per_row=40, n_clusters=4, gamma=0.5, random_state=0).fit(X)
    (rank,) = set(part.ranks_)
    again = MEKA(int(rank), n_clusters=4, gamma=0.5, random_state=0).fit(X)
    np.testing.assert_array_equal(part.matrix_.link, again.matrix_.link)
    larger = MEKA(int(rank) + 1, n_clusters=4, gamma=0.5, random_state=0).fit(X)
    assert again.matrix_.n_parameters_ <= 40 * 500 < larger.matrix_.n_parameters_


@pytest.mark.parametrize("budget", [1.0, 7.5, 100.0, 1e9])
def test_the_rank_is_the_largest_that_the_budget_allows(budget):
    n = 50
    rank = chosen_rank(None, budget, n, lambda k: k * n)
    assert rank == min(int(budget), n)


def test_settings_that_contradict_each_other_name_both():
    X = rows(100)
    with pytest.raises(ValueError, match="set one of rank and numbers_per_row"):
        SpectralNystrom(8, numbers_per_row=8).fit(X)
    with pytest.raises(ValueError, match="set one of rank and numbers_per_row"):
        RandomFeatures(None).fit(X)
    with pytest.raises(ValueError, match=r"numbers_per_row sets the same rank .*'eigenvalues'"):
        MEKA(None, numbers_per_row=8, n_clusters=2, rank_strategy="eigenvalues").fit(X)
    with pytest.raises(ValueError, match="rank 1 keeps 302"):
        MEKA(None, numbers_per_row=0.5, n_clusters=2).fit(rows(298))
