"""At gamma of 2^6 and 2^10 rows whose kernel values all vanish are of LIBSVM's second class.

exp(-gamma d^2) is zero in float64 where gamma d^2 exceeds 745.13. A test row without a support
vector nearer than that has the value zero, if there is no intercept. LIBSVM gives its first class
to positive values and the second one to all others, and the first class is that of the first
training row, on ijcnn1 and most probably on census the larger one. Ours evaluates such rows in a
way that keeps the sign. On ijcnn1 all rows are at hand, and LIBSVM's rule has the printed
accuracies of DC-SVM's Table 7; on census it is the cause of Table 10's in `causes.yaml`, which
names this test.
"""

import os

import numpy as np
import pytest

from kbench.config import composer
from kbench.data import Folders, locate, open_prepared, prepare, with_variant
from kbench.methods import DCSVC, KernelSVC
from kbench.report.papers.printed import printed

VANISHES = 745.13
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
    return data.X_train, data.y_train, data.X_test, data.y_test


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


def paper(method, C, gamma, table="table10"):
    place = table, f"C={POWERS[C]} gamma={POWERS[gamma]}", method, "accuracy"
    return printed("dcsvm")[place].number / 100


def exact(data, nearest, C, gamma, n):
    """Accuracies of the exact machine of the first n rows: as it is, and with LIBSVM's ties."""
    X, y, tests, labels = data
    model = KernelSVC(C=C, gamma=gamma, fit_intercept=False).fit(X[:n], y[:n])
    found = model.predict(tests)
    places, distances = nearest[n]
    vanish = gamma * distances > VANISHES
    # Where the nearest row is no support vector, the nearest one that is may be too far.
    unsure = np.flatnonzero(~vanish & ~np.isin(places, model.support_))
    centres = X[model.support_]
    ((_, farther),) = nearest_of(tests[unsure], centres, [len(centres)]).values()
    vanish[unsure] = gamma * farther > VANISHES
    return np.mean(found == labels), np.mean(np.where(vanish, -y[0], found) == labels)


def early(census, C, gamma, n):
    """Accuracies of three early models with LIBSVM's ties in each cluster: (3, 2).

    In the first column the first class of a cluster is that of its first row, in the second the
    larger one. A cluster of one class has no machine.
    """
    X, y, tests, labels = census
    accuracies = []
    for seed in range(3):
        model = DCSVC(64, C=C, gamma=gamma, random_state=seed).fit(X[:n], y[:n])
        cluster_of, found = model._regions(tests), [model.predict(tests) for _ in range(2)]
        for cluster in np.unique(cluster_of):
            rows = np.flatnonzero(cluster_of == cluster)
            mine = np.flatnonzero(model.labels_ == cluster)
            if len(set(y[mine])) == 1:
                continue
            centres = X[np.intersect1d(mine, model.support_)]
            ((_, distances),) = nearest_of(tests[rows], centres, [len(centres)]).values()
            vanish = rows[gamma * distances > VANISHES]
            found[0][vanish] = -y[mine[0]]
            found[1][vanish] = -np.sign(y[mine].sum())
        accuracies.append([np.mean(one == labels) for one in found])
    return np.array(accuracies)


def test_exact_machine_at_2_to_the_10_gains_as_much_with_each_doubling_as_the_paper_is_above(
    census, nearest
):
    """42.7, 47.2 and 51.6 %; as much once more is the printed 56.31 to half a point."""
    scores = [exact(census, nearest, 2.0, 1024.0, n)[1] for n in nearest]
    assert scores == pytest.approx([0.427, 0.472, 0.516], abs=0.002)
    gain = (scores[2] - scores[0]) / 2
    assert scores[2] + gain == pytest.approx(paper("DC-SVM", 2.0, 1024.0), abs=0.005)


@pytest.mark.parametrize(
    ("C", "ours"),
    list(zip(POWERS, (0.9184, 0.9184, 0.9176, 0.9163, 0.9159), strict=True)),
)
def test_exact_machine_at_2_to_the_6_is_as_accurate_as_the_papers(census, nearest, C, ours):
    without, tied = exact(census, nearest, C, 64.0, N_TRAIN)
    assert tied == pytest.approx(ours, abs=0.0005)
    assert tied == pytest.approx(paper("DC-SVM", C, 64.0), abs=0.0035)
    assert without - paper("DC-SVM", C, 64.0) >= 0.005


@pytest.mark.parametrize(
    ("C", "gamma", "quarter", "whole", "spread"),
    [
        (2.0, 64.0, 0.896, 0.915, 0.002),
        (1024.0, 64.0, 0.895, 0.911, 0.002),
        (2.0, 1024.0, 0.554, 0.596, 0.02),
    ],
)
def test_early_model_is_as_accurate_as_the_papers_between_our_rows_and_twice_as_many(
    census, C, gamma, quarter, whole, spread
):
    """A doubling of the rows is taken to gain half of what two doublings, from 20,000, have gained.

    Which class comes first in which cluster makes a spread of seeds of two points at 2^10, and
    three points more than if the larger one always did. Another BLAS has other clusters.
    """
    few = early(census, C, gamma, 20_000)[:, 0].mean()
    ours, larger_first = early(census, C, gamma, N_TRAIN).mean(axis=0)
    assert few == pytest.approx(quarter, abs=spread)
    assert ours == pytest.approx(whole, abs=spread)
    if gamma == 1024.0:
        assert larger_first == pytest.approx(0.564, abs=spread)
        assert ours > larger_first + 0.005
    assert ours < paper("DC-SVM (early)", C, gamma) <= ours + (ours - few) / 2 + spread


def test_exact_machine_at_2_to_the_10_has_the_same_accuracy_at_every_c(census, nearest):
    scores = [exact(census, nearest, C, 1024.0, N_TRAIN)[1] for C in (2.0**-10, 1024.0)]
    assert scores == pytest.approx([0.516, 0.516], abs=0.001)


def test_with_libsvms_rule_ijcnn1_has_the_printed_accuracy_at_2_to_the_10(folders):
    data = opened(folders, "dataset=ijcnn1")
    X, y, tests, _ = data
    assert (len(X), y[0]) == (49_990, -1)
    nearest = nearest_of(tests, X, [len(X)])
    for C, ours in ((2.0**-10, 0.9737), (2.0, 0.9747)):
        without, tied = exact(data, nearest, C, 1024.0, len(X))
        assert without == pytest.approx(ours, abs=0.0005)
        assert round(100 * tied, 1) == pytest.approx(
            100 * paper("DC-SVM", C, 1024.0, "table7"), abs=0.1
        )


def test_rows_that_vanish_are_half_of_the_test_rows_at_2_to_the_10(nearest):
    """And one in a hundred at 2^6."""
    _, distances = nearest[N_TRAIN]
    assert np.mean(1024 * distances > VANISHES) == pytest.approx(0.493, abs=0.001)
    assert np.mean(64 * distances > VANISHES) == pytest.approx(0.009, abs=0.001)
