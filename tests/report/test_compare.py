"""Statistics against scipy, tables in the literature and what the bootstrap must satisfy."""

import itertools
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.report.statistics.compare import (
    bootstrap_mean,
    critical_difference,
    friedman,
    mean_ranks,
    ranks,
)

scores = st.integers(2, 6).flatmap(
    lambda k: st.lists(
        st.lists(st.integers(0, 5).map(float), min_size=k, max_size=k), min_size=2, max_size=8
    )
)


@given(scores, st.sampled_from([1, -1]))
def test_rank_counts_better_methods_and_half_of_the_ties(table, sign):
    found = ranks(table, sign)
    for row, own in zip(table, found, strict=True):
        for value, rank in zip(row, own, strict=True):
            better = sum(sign * other > sign * value for other in row)
            equal = sum(other == value for other in row)
            assert rank == better + (equal + 1) / 2
    k = len(table[0])
    assert found.sum(axis=1) == pytest.approx(k * (k + 1) / 2)


@pytest.mark.parametrize("sign", [1, -1])
def test_failures_get_the_mean_of_the_last_ranks(sign):
    assert ranks([[3.0, np.nan, 1.0, np.nan]], sign).tolist() in (
        [[1.0, 3.5, 2.0, 3.5]],
        [[2.0, 3.5, 1.0, 3.5]],
    )


@given(scores)
def test_friedman_agrees_with_scipy(table):
    found = friedman(ranks(table, 1))
    columns = list(zip(*table, strict=True))
    if len(columns) < 3 or all(len(set(row)) == 1 for row in table):
        assert found is None
    else:
        expected = scipy.stats.friedmanchisquare(*columns)
        assert found == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_difference_has_the_values_of_demsar_table_5(k, q):
    # alpha = 0.05; scaled by sqrt(k (k + 1) / (6 N)) for N = 14 data sets.
    expected = q * np.sqrt(k * (k + 1) / (6 * 14))
    assert critical_difference(k, 14) == pytest.approx(expected, abs=2e-3)


def test_one_difference_has_no_interval_and_two_methods_no_friedman():
    found = bootstrap_mean([[0.25]])
    assert (found.mean, found.low, found.high) == (0.25, None, None)
    assert [(r.mean, r.low) for r in mean_ranks([[1.0, 2.0]])] == [(1.0, None), (2.0, None)]


@pytest.mark.parametrize("groups", [[[0.0, 1.0, 4.0]], [[0.0], [1.0], [4.0]]])
def test_bootstrap_of_few_values_is_that_of_all_resamples(groups):
    """Over groups of one value it is that of their values."""
    draws = itertools.product([0.0, 1.0, 4.0], repeat=3)
    every = [statistics.fmean(draw) for draw in draws]
    low, high = np.quantile(every, [0.025, 0.975], method="inverted_cdf")
    found = bootstrap_mean(groups)
    assert found.mean == pytest.approx(5 / 3)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_groups_count_alike_however_many_values_they_have():
    assert bootstrap_mean([[0.0] * 9, [1.0]]).mean == pytest.approx(0.5)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=4), min_size=1, max_size=4),
    st.floats(-10, 10),
)
def test_intervals_are_deterministic_hold_to_the_range_and_move_with_it(groups, shift):
    found = bootstrap_mean(groups)
    assert found == bootstrap_mean(groups)
    if found.low is None:
        return
    means = [statistics.fmean(group) for group in groups]
    assert min(map(min, groups)) - 1e-9 <= found.low <= found.high <= max(map(max, groups)) + 1e-9
    assert found.mean == pytest.approx(statistics.fmean(means), abs=1e-9)
    moved = bootstrap_mean([[value + shift for value in group] for group in groups])
    if moved.low is None:  # what differed by 1e-288 is equal after a shift
        return
    assert (moved.low, moved.high) == pytest.approx((found.low + shift, found.high + shift))


def test_intervals_cover_the_mean_about_as_often_as_they_say():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        found = bootstrap_mean([rng.normal(size=40)])
        hits += found.low <= 0.0 <= found.high
    assert 0.88 <= hits / 200 <= 0.99  # 0.95, less a little: percentile intervals are short
