"""ijcnn1, the first data set of the DC-SVM paper: objective and accuracy at its C and gamma.

And, with cod-rna, what HSS matrices of the HSS-ADMM paper's settings take and are worth.
"""

import lzma
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from kbench.approximation import HSSMatrix
from kbench.methods import DCSVC, KernelSVC


def raw_file(name):
    """A LIBSVM file, plain or xz, somewhere below a folder of KBENCH_DATA."""
    for folder in filter(None, os.environ.get("KBENCH_DATA", "").split(os.pathsep)):
        for path in sorted(Path(folder).rglob(f"{name}*")):
            if path.is_file() and path.name in (name, f"{name}.xz"):
                return path
    pytest.skip(f"{name} is in no folder of KBENCH_DATA")


def load(name, n_features=22):
    path = raw_file(name)
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as stream:
        X, y = load_svmlight_file(stream, n_features=n_features, dtype=np.float32)
    return X, y


@pytest.fixture(scope="module")
def ijcnn1():
    X, y = load("ijcnn1")
    X_test, y_test = load("ijcnn1.t")
    return X.toarray(), y, X_test.toarray(), y_test


def test_exact_machine(ijcnn1):
    X, y, X_test, y_test = ijcnn1
    model = KernelSVC(C=32, gamma=2, fit_intercept=False).fit(X, y)
    assert model.objective_ == pytest.approx(-33155.2, rel=1e-4)
    assert model.violation_ <= 1e-3
    assert 2450 <= len(model.support_) <= 2530
    assert model.score(X_test, y_test) == pytest.approx(0.984, abs=0.001)


def test_exact_machine_in_two_hundred_megabytes(ijcnn1):
    X, y, _, _ = ijcnn1
    tracemalloc.start()
    model = KernelSVC(C=32, gamma=2, cache_size=200).fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.converged_
    # 200 MiB of kernel rows, and five copies of X.
    assert peak <= 250 * 2**20
    assert model.kernel_entries_ <= 3 * KernelSVC(C=32, gamma=2).fit(X, y).kernel_entries_


@pytest.mark.parametrize("partition", ["kmeans", "kernel_kmeans"])
def test_early_prediction_comes_close(ijcnn1, partition):
    X, y, X_test, y_test = ijcnn1
    model = DCSVC(C=32, gamma=2, partition=partition, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) >= 0.975
    # A tenth of the matrix that the clusters leave, and the assignments.
    assert model.kernel_entries_ < 0.1 * len(y) ** 2


def test_hss_matrices_take_what_the_papers_do(ijcnn1):
    """MB of Table 4 of Cipolla and Gondzio (2022), 8 bytes a number, at its best bandwidths."""
    rna, _ = load("cod-rna", 8)
    for X, h, printed in ((ijcnn1[0], 0.1, 153.586), (rna.toarray(), 10.0, 181.47)):
        matrix = HSSMatrix(gamma=0.5 / h**2, preset="paper_table4", random_state=0).fit(X)
        assert 8e-6 * matrix.n_parameters_ == pytest.approx(printed, rel=0.15)


def test_hss_matrices_reach_three_digits(ijcnn1):
    matrix = HSSMatrix(gamma=0.5, preset="accurate", random_state=0).fit(ijcnn1[0])
    assert matrix.relative_error(100, random_state=1) <= 1e-3
    assert 8e-6 * matrix.n_parameters_ <= 140.0
