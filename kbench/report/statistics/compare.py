"""Statistics of comparisons over data sets and seeds.

Mean ranks, the Friedman test and the Nemenyi critical difference follow Demsar (2006), "Statistical
comparisons of classifiers over multiple data sets", JMLR 7. Intervals are percentile intervals of
the bootstrap (Efron and Tibshirani 1993, chapter 13). Every interval uses a new generator with the
same seed, so that equal numbers give equal intervals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kbench.report.comparisons.splits import corrected_error

LEVEL = 0.95  # nominal coverage of intervals; set by hand

# Number of bootstrap samples of an interval. The Monte Carlo error of its limits falls with the
# square root of this number, and the time grows with it. Set by hand.
RESAMPLES = 5000
_SEED = 0

# A difference of this many test rows may be due to chance (sign test): if two equally good models
# differ on five rows, the same model is right on all five with the probability 1/16.
CHANCE_ROWS = 5

# Spreads below this times the mean are taken for rounding errors. Set by hand, far above the
# precision of float64 (2e-16).
_ROUNDING = 1e-12

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate and the limits of its interval, which are None if nothing varies."""

    mean: float
    low: float | None = None
    high: float | None = None


def bootstrap_mean(groups: Sequence[ArrayLike]) -> Interval:
    """The mean over groups of the means of their values, with a bootstrap interval.

    Groups (data sets) are drawn with replacement, and then values (seeds) within each drawn group.
    If there is a single group, only its values are drawn.

    groups : sequence of array of shape (n_g,), n_g >= 1
        Paired differences of each data set, one for each seed.

    O(RESAMPLES * sum n_g) time, O(RESAMPLES * (len(groups) + max n_g)) memory.
    """
    values = [np.asarray(group, dtype=np.float64) for group in groups]
    estimate = float(np.mean([group.mean() for group in values]))
    if len(values) == 1 and len(values[0]) == 1:
        return Interval(estimate)
    rng = np.random.default_rng(_SEED)
    draws = rng.integers(len(values), size=(RESAMPLES, len(values)))
    means = np.empty(draws.shape)
    for index, group in enumerate(values):
        is_group = draws == index
        indices = rng.integers(len(group), size=(np.count_nonzero(is_group), len(group)))
        means[is_group] = group[indices].mean(axis=1)
    return _interval(estimate, means.mean(axis=1))


@dataclass(frozen=True)
class CorrectedTest:
    """A mean difference over splits: its interval, standard error, t and two-sided p-value."""

    interval: Interval
    standard_error: float
    t: float
    p: float


def corrected_t(differences: Sequence[float], test_per_train: float) -> CorrectedTest | None:
    """The corrected resampled t test of Nadeau and Bengio (2003); None for fewer than two splits.

    differences : Paired differences of two methods, one for each split
    test_per_train : Test rows divided by training rows

    The mean divided by `corrected_error` has Student's t distribution; its degrees of freedom are
    the number of splits less one. Without variance there is no interval; t and p are NaN.
    """
    from scipy.stats import t as student

    error = corrected_error(differences, test_per_train)
    if error is None:
        return None
    mean = math.fsum(differences) / len(differences)
    if error <= _ROUNDING * abs(mean) or error == 0.0:
        return CorrectedTest(Interval(mean), error, math.nan, math.nan)
    degrees = len(differences) - 1
    half_width = float(student.ppf((1.0 + LEVEL) / 2.0, degrees)) * error
    p = 2.0 * float(student.sf(abs(mean) / error, degrees))
    return CorrectedTest(
        Interval(mean, mean - half_width, mean + half_width), error, mean / error, p
    )


def ranks(scores: ArrayLike, sign: int) -> Array:
    """Rank of each method on each data set, 1 the best; equal scores get the mean of their ranks.

    scores : array of shape (n_datasets, n_methods)
        NaN where a method failed, which is worse than any score.
    sign : {1, -1}. 1 where more is better.

    Returns array of shape (n_datasets, n_methods).
    """
    from scipy.stats import rankdata

    losses = -sign * np.asarray(scores, dtype=np.float64)
    return rankdata(np.where(np.isnan(losses), np.inf, losses), axis=1)


def mean_ranks(rank_matrix: ArrayLike) -> list[Interval]:
    """Mean rank of each method, with a bootstrap interval over data sets.

    `rank_matrix` has shape (n_datasets, n_methods); for one data set there is no interval.
    """
    table = np.asarray(rank_matrix, dtype=np.float64)
    if len(table) == 1:
        return [Interval(float(rank)) for rank in table[0]]
    rng = np.random.default_rng(_SEED)
    draws = rng.integers(len(table), size=(RESAMPLES, len(table)))
    resampled = table[draws].mean(axis=1)
    return [_interval(float(column.mean()), resampled[:, j]) for j, column in enumerate(table.T)]


def friedman(rank_matrix: ArrayLike) -> tuple[float, float] | None:
    """Friedman's chi-squared of ranks, with the correction for ties, and its p-value.

    None with fewer than three methods or two data sets, or if all methods tie on all data sets.
    """
    table = np.asarray(rank_matrix, dtype=np.float64)
    n, k = table.shape
    if k < 3 or n < 2 or np.all(table == table[:, :1]):
        return None
    from scipy.stats import friedmanchisquare

    result = friedmanchisquare(*table.T)
    return float(result.statistic), float(result.pvalue)


def critical_difference(n_methods: int, n_datasets: int) -> float:
    """The smallest difference of two mean ranks that is significant (Nemenyi, 1 - `LEVEL`)."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(LEVEL, n_methods, np.inf)) / np.sqrt(2.0)
    return float(q * np.sqrt(n_methods * (n_methods + 1.0) / (6.0 * n_datasets)))


def _interval(estimate: float, resampled: NDArray[Any]) -> Interval:
    """The interval of resampled means; without limits if the means differ only by rounding."""
    if np.ptp(resampled) <= _ROUNDING * abs(estimate):
        return Interval(estimate)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(resampled, [tail, 1.0 - tail])
    return Interval(estimate, float(low), float(high))
