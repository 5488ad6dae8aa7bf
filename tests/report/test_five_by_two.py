"""Five times two folds of four methods: the report has the numbers of a scikit-learn script."""

import csv
import io
from itertools import combinations

import numpy as np
import pytest
from harness import run_here
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from kbench.approximation import MEKA
from kbench.methods import ApproximateRidgeClassifier, KernelSVC

METHODS = ["svc", "kernel_svc", "meka", "hist_gradient_boosting"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    here = tmp_path_factory.mktemp("five_by_two")
    splits = ["dataset.split.repeats=5", "dataset.split.folds=2"]
    asked = [f"method={','.join(METHODS)}", "dataset=iris,breast_cancer", *splits]
    run_here(here, "-m", *asked, "use=none", "tag=five-by-two", check=0)
    words = ["report", "compare", f"method={','.join(METHODS)}", "tag=five-by-two"]
    assert "paired over 10 splits" in run_here(here, *words).stdout
    found = csv.DictReader(io.StringIO(run_here(here, *words, "format=csv").stdout))
    return {(row["dataset"].split(" ")[0], row["a"], row["b"]): row for row in found}


def scores(X, y):
    """Accuracy of each method on each test fold, shape (4, 10)."""
    found = []
    for seed in range(5):
        for _, fold in StratifiedKFold(2, shuffle=True, random_state=seed).split(X, y):
            order = np.random.RandomState(seed).permutation(len(y))
            tests = np.isin(order, fold)
            train, test = order[~tests], order[tests]
            Z = MinMaxScaler().fit(X[train]).transform(X).astype(np.float32)
            models = [
                SVC(C=1.0, gamma="scale"),
                KernelSVC(C=1.0, gamma="scale"),
                ApproximateRidgeClassifier(
                    approximation=MEKA(rank=128, n_clusters=10, gamma="scale", preset="paper"),
                    alpha="loo",
                    random_state=0,
                ),
                HistGradientBoostingClassifier(random_state=0),
            ]
            found.append([m.fit(Z[train], y[train]).score(Z[test], y[test]) for m in models])
    return np.transpose(found)


@pytest.mark.parametrize(
    ("name", "load"), [("iris", load_iris), ("breast_cancer", load_breast_cancer)]
)
@pytest.mark.filterwarnings("ignore:rank=128 is more than n_samples=75")
def test_paired_differences_are_those_of_a_script(pairs, name, load):
    X, y = load(return_X_y=True)
    measured = dict(zip(METHODS, scores(X, y), strict=True))
    for a, b in combinations(METHODS, 2):
        row, differences = pairs[name, a, b], measured[a] - measured[b]
        n = len(y)
        error = np.sqrt((1 / 10 + (n - n // 2) / (n // 2)) * differences.var(ddof=1))
        assert row["splits"] == "10"
        assert float(row["estimate"]) == pytest.approx(differences.mean(), abs=1e-9)
        assert float(row["standard_error"]) == pytest.approx(error, rel=2 / n)
        if error > 0:
            p = 2 * stats.t.sf(abs(differences.mean()) / error, 9)
            assert float(row["p"]) == pytest.approx(p, rel=0.01)
