"""Copies are equal rows with equal targets whose columns are not codes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from kbench.clustering.copies import without_copies

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = RNG.normal(size=40)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.asfortranarray])
@given(picked=st.lists(st.integers(0, 39), min_size=1, max_size=200))
def test_the_first_of_equal_rows_stands_for_all_of_them(form, picked):
    picked = np.concatenate([np.arange(40), picked])
    found = without_copies(form(X[picked]), Y[picked])
    rows, group = found
    np.testing.assert_array_equal(rows, np.arange(40))
    np.testing.assert_array_equal(picked[rows][group], picked)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_that_are_no_copies_are_left_alone(form):
    twice = np.repeat(X, 2, axis=0)
    assert without_copies(form(X), Y) is None
    # Equal rows with different targets: the target has noise, which is to be seen.
    assert without_copies(form(twice), RNG.normal(size=80)) is None
    # Codes are equal by chance.
    codes = RNG.integers(0, 4, (200, 3)).astype(float)
    assert without_copies(form(codes), codes.sum(axis=1)) is None


def test_columns_of_targets_and_labels_count():
    twice = np.repeat(X, 2, axis=0)
    labels = np.repeat(np.where(Y > 0, "yes", "no"), 2)
    assert len(without_copies(twice, labels)[0]) == 40
    several = np.repeat(RNG.normal(size=(40, 2)), 2, axis=0)
    assert len(without_copies(twice, several)[0]) == 40
    several[1, 1] += 1.0
    assert without_copies(twice, several) is None


def test_rows_that_share_a_key_but_differ_are_told_apart():
    rows = np.array([[np.finfo(float).tiny * k, 1e300] for k in range(30)] * 2)
    rows, group = without_copies(rows, np.tile(np.arange(30.0), 2))
    np.testing.assert_array_equal(group, np.tile(np.arange(30), 2))
