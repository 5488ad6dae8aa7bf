"""Memory of a fit on wide CSR rows, as of hashed texts: not that of dense rows.

A fit may take vectors of d numbers (means, extents, centroids, landmarks, frequencies), but not one
for each of the n rows.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from all_machines import build, machines

N, D, ENTRIES = 400, 2**16, 20
# Vectors of d float64 numbers beside those of the model, half as many as rows: a block of 128
# frequencies of doubly SGD in float32, twice.
VECTORS = 200
# These hold dense rows of a leaf, a batch or a sample, or dense landmarks of a cluster: n d numbers
# here, where every row is in the sample.
DENSE_PARTS = {
    "ApproximateRidge": "MEKA's landmarks by k-means, 128 for each cluster, are dense",
    "ApproximateRidgeClassifier": "as ApproximateRidge",
    "DCPredClassifier": "rows of a leaf are dense",
    "DCPredRegressor": "rows of a leaf are dense",
    "DCPredTrainedClassifier": "rows of a leaf are dense",
    "DCPredTrainedRegressor": "rows of a leaf are dense",
    "LDKLClassifier": "a batch of rows is dense",
    "RecursiveFeatureClassifier": "the sample of the metric is dense",
    "RecursiveFeatureRegressor": "the sample of the metric is dense",
    "ReducedSetSVC": "support vectors are dense while their pre-images are sought",
    "TunedKernelRidge": "the sample of the metric is dense",
    "TunedKernelSVC": "the sample of the metric is dense",
    "TunedKernelSVR": "the sample of the metric is dense",
    "WithMetric": "the sample of the metric is dense",
}
OF_DENSE_PARTS = {"MEKA", "KernelSVC", "KernelRidge"}  # the latter two behind a learned metric
# Seconds of a fit with 2^16 columns, for no other reason.
SLOW = {"PegasosClassifier"}


def hashed_text():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, D, (N, ENTRIES))
    columns[:, 0] = rng.integers(0, 6, N)
    indptr = np.arange(0, N * ENTRIES + 1, ENTRIES)
    X = sp.csr_matrix((rng.random(N * ENTRIES), columns.ravel(), indptr), shape=(N, D))
    X.sum_duplicates()
    return X, (columns[:, 0] > 2).astype(int)


@pytest.mark.parametrize(
    "machine",
    [
        machine
        for machine in machines()
        if machine.cls.__name__ not in SLOW | set(DENSE_PARTS)
        or (machine.part is not None and type(machine.part).__name__ not in OF_DENSE_PARTS)
    ],
    ids=str,
)
def test_a_fit_takes_no_dense_copy_of_wide_rows(machine, peak_bytes):
    X, y = hashed_text()
    model = build(machine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peak = peak_bytes(lambda: model.fit(X, y))
    assert peak < 8 * D * VECTORS + 4 * getattr(model, "model_bytes_", 0)


def test_the_list_of_dense_parts_names_estimators_of_kbench():
    assert {*DENSE_PARTS, *SLOW} <= {machine.cls.__name__ for machine in machines()}
