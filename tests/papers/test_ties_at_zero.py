"""At gamma of 2^6 and 2^10 rows whose kernel values all vanish are of LIBSVM's second class.

exp(-gamma d^2) is zero in float64 where gamma d^2 exceeds 745.13, for a squared distance d^2. A
test row without a nearer support vector has the value zero, if there is no intercept. LIBSVM gives
its first class to positive values and the second one to all others. In LIBSVM 3.14, on which the
authors' program rests, the first class is that of the first training row, on ijcnn1 and most
probably on census the larger one; newer versions begin with +1. Ours decides such rows by the sum
of the coefficients, which is that of the larger class.

Here LIBSVM's values are computed from our coefficients in plain float64. On ijcnn1 all rows are at
hand, and LIBSVM's rule has the printed accuracies of DC-SVM's Table 7. On census, where half of the
paper's rows are at hand, it is the cause of Table 10's in `causes.yaml`, which names this test.
"""

import os

import numpy as np
import pytest

from kbench.config import composer
from kbench.data import Folders, locate, open_prepared, prepare, with_variant
from kbench.methods import DCSVC, KernelSVC
from kbench.papers.printed.numbers import printed

VANISHES = 745.13
# Where the kernel values of kbench begin to differ from those of float64: it ends at 2^-900.
NEAR = 600.0
N_TRAIN = 79_810  # half of the paper's
POWERS = {2.0**-10: "2^-10", 2.0**-6: "2^-6", 2.0: "2^1", 64.0: "2^6", 1024.0: "2^10"}

pytestmark = pytest.mark.skipif(
    "KBENCH_DATA" not in os.environ, reason="needs real data: set KBENCH_DATA"
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return Folders.from_environment(tmp_path_factory.mktemp("datasets"))


@pytest.fixture(scope="module")
def census(folders):
    return opened(folders, "dataset=census", "dataset.variant=dcsvm_half")


def opened(folders, *words):
    """Training rows and classes, test rows and classes; +1 is the rarer class."""
    with composer() as hydra:
        config = with_variant(hydra.compose(list(words))["dataset"])
    if any(file.path is None for file in locate(config, folders)):
        pytest.skip(f"the files of {' '.join(words)} are in no folder of KBENCH_DATA")
    data = open_prepared(prepare(config, folders, download=False))
    return data.X_train.astype("f8"), data.y_train, data.X_test.astype("f8"), data.y_test


@pytest.fixture(scope="module")
def nearest(census):
    """The nearest of the first n training rows to each test row, and its squared distance, by n."""
    X, _, tests, _ = census
    assert len(X) == N_TRAIN
    return nearest_of(tests, X, [20_000, 40_000, N_TRAIN])


def nearest_of(rows, points, counts):
    """For each count n, the nearest of the first n points to each row, and its squared distance.

    rows : (u, d); points : (v, d); the values of the dict are two arrays (u,).
    """
    lengths = np.einsum("ij,ij->i", points, points)
    found = {count: (np.empty(len(rows), int), np.empty(len(rows))) for count in counts}
    for start in range(0, len(rows), 1000):
        block = rows[start : start + 1000]
        squares = block @ points.T
        squares *= -2
        squares += lengths
        own = np.einsum("ij,ij->i", block, block)
        for count, (places, distances) in found.items():
            least = squares[:, :count].argmin(axis=1)
            places[start : start + 1000] = least
            distances[start : start + 1000] = squares[np.arange(len(block)), least] + own
    return found


def values_of_libsvm(values, rows, distances, centres, coef, gamma):
    """Our values, with those of plain float64 where kernel values are so small that they differ.

    values, distances : (u,) of rows : (u, d); the distances, squared, are those of the nearest of
    the centres : (s, d). coef : (s,).
    """
    values = np.where(gamma * distances > VANISHES + 1.0, 0.0, values)
    small = np.flatnonzero((gamma * distances > NEAR) & (gamma * distances <= VANISHES + 1.0))
    for part in np.array_split(small, 1 + len(small) // 200):
        squares = -2.0 * rows[part] @ centres.T
        squares += np.einsum("ij,ij->i", rows[part], rows[part])[:, None]
        squares += np.einsum("ij,ij->i", centres, centres)
        values[part] = np.exp(-gamma * squares) @ coef
    return values


def decided(values, first):
    """LIBSVM's classes of values, for a first class of +1 or -1; +1 has positive values."""
    return np.where(values * first > 0.0, first, -first)


def paper(method, C, gamma, table="table10"):
    place = table, f"C={POWERS[C]} gamma={POWERS[gamma]}", method, "accuracy"
    return printed("dcsvm")[place].number / 100


def exact(data, nearest, C, gamma, n):
    """Accuracies of the exact machine of the first n rows.

    Of ours; by LIBSVM's rule; if +1 were LIBSVM's first class, as in newer versions; and if values
    of zero were of no class.
    """
    X, y, tests, labels = data
    model = KernelSVC(C=C, gamma=gamma, fit_intercept=False).fit(X[:n], y[:n])
    places, distances = nearest[n]
    centres, coef = X[model.support_], model.dual_coef_[0]
    # The nearest row may be no support vector.
    distances = distances.copy()
    unsure = np.flatnonzero(~np.isin(places, model.support_) & (gamma * distances <= VANISHES))
    ((_, distances[unsure]),) = nearest_of(tests[unsure], centres, [len(centres)]).values()
    ours = model.decision_function(tests)
    values = values_of_libsvm(ours, tests, distances, centres, coef, gamma)
    by_rule = decided(values, y[0]) == labels
    newer = decided(values, 1) == labels
    ours = decided(ours, 1) == labels
    return [np.mean(right) for right in (ours, by_rule, newer, by_rule & (values != 0.0))]


def early(census, C, gamma, n):
    """Mean accuracies of three early models of the first n rows.

    Of ours; by LIBSVM's rule in each cluster, where the first class is that of the cluster's first
    row; and if it were the larger class everywhere. A cluster of one class has no model.
    """
    X, y, tests, labels = census
    accuracies = []
    for seed in range(3):
        model = DCSVC(64, C=C, gamma=gamma, random_state=seed).fit(X[:n], y[:n])
        cluster_of, ours = model._regions(tests), model.decision_function(tests)
        found = np.tile(model.predict(tests), (3, 1))
        for cluster in np.unique(cluster_of):
            rows = np.flatnonzero(cluster_of == cluster)
            mine = np.flatnonzero(model.labels_ == cluster)
            if len(set(y[mine])) == 1:
                continue
            inside = np.isin(model.support_, mine)
            centres, coef = X[model.support_[inside]], model.dual_coef_[0, inside]
            ((_, distances),) = nearest_of(tests[rows], centres, [len(centres)]).values()
            values = values_of_libsvm(ours[rows], tests[rows], distances, centres, coef, gamma)
            found[1, rows] = decided(values, y[mine[0]])
            found[2, rows] = decided(values, np.sign(y[mine].sum()))
        accuracies.append(np.mean(found == labels, axis=1))
    return np.mean(accuracies, axis=0)


def test_exact_machine_at_2_to_the_10_gains_as_much_with_each_doubling_as_the_paper_is_above(
    census, nearest
):
    """42.7, 47.1 and 51.6 %; as much once more is the printed 56.31 to half a point.

    Newer versions of LIBSVM, or values of zero that are of no class, would be far from it.
    """
    scores = np.array([exact(census, nearest, 2.0, 1024.0, n) for n in nearest])
    ours, by_rule, newer, without_class = (scores[2] + (scores[2] - scores[0]) / 2).tolist()
    printed_score = paper("DC-SVM", 2.0, 1024.0)
    assert scores[:, 1] == pytest.approx([0.427, 0.471, 0.516], abs=0.002)
    assert by_rule == pytest.approx(printed_score, abs=0.005)
    assert without_class < printed_score - 0.03
    assert min(ours, newer) > printed_score + 0.3


@pytest.mark.parametrize("C", [2.0**-10, 1024.0])
def test_exact_machine_at_2_to_the_10_has_the_same_accuracy_at_every_c(census, nearest, C):
    assert exact(census, nearest, C, 1024.0, N_TRAIN)[1] == pytest.approx(0.516, abs=0.002)


@pytest.mark.parametrize(
    ("C", "half", "whole"),
    [
        (2.0**-10, 0.908, 0.9175),  # as 2^-6
        (2.0, 0.908, 0.917),
        (1024.0, 0.906, 0.9155),  # as 2^6
    ],
)
def test_exact_machine_at_2_to_the_6_has_the_papers_accuracy_between_our_rows_and_twice_as_many(
    census, nearest, C, half, whole
):
    """Without the rule ours is half a point above, and gains, too."""
    less, scores = (exact(census, nearest, C, 64.0, n) for n in (40_000, N_TRAIN))
    printed_score = paper("DC-SVM", C, 64.0)
    assert (less[1], scores[1]) == pytest.approx((half, whole), abs=0.001)
    assert scores[1] < printed_score < 2 * scores[1] - less[1]
    assert scores[1] == pytest.approx(printed_score, abs=0.004)
    assert less[0] < scores[0]
    assert scores[0] > printed_score + 0.005


@pytest.mark.parametrize(("C", "quarter", "whole"), [(2.0, 0.894, 0.914), (1024.0, 0.893, 0.911)])
def test_early_model_at_2_to_the_6_has_the_papers_accuracy_between_our_rows_and_twice_as_many(
    census, C, quarter, whole
):
    """A doubling is taken to gain half of what the two from 20,000 rows have gained."""
    few, scores = (early(census, C, 64.0, n) for n in (20_000, N_TRAIN))
    printed_score = paper("DC-SVM (early)", C, 64.0)
    assert (few[1], scores[1]) == pytest.approx((quarter, whole), abs=0.002)
    assert scores[1] < printed_score < scores[1] + (scores[1] - few[1]) / 2
    assert scores[0] > printed_score + 0.005


def test_early_model_at_2_to_the_10_has_the_papers_mean_with_twice_our_rows(census):
    """The mean of the five printed, because the clusters, which differ, make three points.

    A zero is of the larger class in clusters that begin with the rarer one; if the larger class
    were first everywhere, the early model would be below all five.
    """
    few, scores = (
        np.mean([early(census, C, 1024.0, n) for C in (2.0**-10, 2.0)], axis=0)
        for n in (20_000, N_TRAIN)
    )
    more = scores + (scores - few) / 2
    five = [paper("DC-SVM (early)", C, 1024.0) for C in POWERS]
    assert (few[1], scores[1]) == pytest.approx((0.552, 0.605), abs=0.015)
    assert more[1] == pytest.approx(np.mean(five), abs=0.02)
    assert more[2] < min(five) - 0.01
    assert more[0] > max(five) + 0.3


def test_with_libsvms_rule_ijcnn1_has_the_printed_accuracy_at_2_to_the_10(folders):
    data = opened(folders, "dataset=ijcnn1")
    X, y, tests, _ = data
    assert (len(X), y[0]) == (49_990, -1)
    nearest = nearest_of(tests, X, [len(X)])
    for C, ours, by_rule in ((2.0**-10, 0.9737, 0.9705), (2.0, 0.9747, 0.9716)):
        scores = exact(data, nearest, C, 1024.0, len(X))
        printed_score = paper("DC-SVM", C, 1024.0, "table7")
        assert scores[:3] == pytest.approx([ours, by_rule, ours], abs=0.0002)
        assert scores[1] == pytest.approx(printed_score, abs=0.001)
        assert min(scores[0], scores[2]) > printed_score + 0.002


def test_rows_that_vanish_are_half_of_the_test_rows_at_2_to_the_10(nearest):
    """And one in a hundred at 2^6."""
    _, distances = nearest[N_TRAIN]
    assert np.mean(1024 * distances > VANISHES) == pytest.approx(0.493, abs=0.001)
    assert np.mean(64 * distances > VANISHES) == pytest.approx(0.009, abs=0.001)
