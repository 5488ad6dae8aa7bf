"""Memory of fits and predictions on wide CSR rows, as of hashed texts: not that of dense rows.

They may take vectors of d numbers (means, extents, centroids, landmarks, frequencies), but not one
for each of the n rows. Estimators that make rows dense say so (`dense_rows`), and are refused in
one line if there is no memory for that.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from all_machines import build, machines

from kbench import process_memory

N, D, ENTRIES = 600, 2**16, 20
# Vectors of d float64 numbers beside those of the model, half as many as rows: a block of 128
# frequencies of doubly SGD in float32, twice, or a sample of 500 rows on its used columns.
VECTORS = 300
MACHINES = list(machines())


def hashed_text(d=D):
    rng = np.random.default_rng(0)
    columns = rng.integers(0, d, (N, ENTRIES))
    columns[:, 0] = rng.integers(0, 6, N)
    indptr = np.arange(0, N * ENTRIES + 1, ENTRIES)
    X = sp.csr_matrix((rng.random(N * ENTRIES), columns.ravel(), indptr), shape=(N, d))
    X.sum_duplicates()
    return X, (columns[:, 0] > 2).astype(int)


def quick(machine):
    """Few passes: memory does not depend on their number."""
    model = build(machine)
    return model.set_params(n_epochs=1) if "n_epochs" in machine.names else model


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(process_memory, "available_bytes", lambda: 8.0 * D * VECTORS)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_wide_rows_are_fitted_and_predicted_without_a_dense_copy_or_refused(
    machine, peak_bytes, little_memory
):
    X, y = hashed_text()
    model, refused = quick(machine), []

    def fit_and_predict():
        try:
            model.fit(X, y).predict(X)
        except MemoryError as error:
            refused.append(str(error))

    with warnings.catch_warnings(action="ignore"):
        peak = peak_bytes(fit_and_predict)
    for message in refused:
        assert f" dense rows of {D} columns, which takes about " in message
        assert "\n" not in message
    assert peak < 8 * D * VECTORS + 4 * getattr(model, "model_bytes_", 0)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_dense_rows_are_as_many_as_the_estimator_says(machine, peak_bytes):
    model = quick(machine)
    made_of = [type(model), *(type(part) for part in model.get_params().values())]
    of_part = [getattr(cls, "dense_rows", (0.0, 0)) for cls in made_of]
    copies, rows = max(of_part)
    if not copies:
        pytest.skip("makes no dense rows")
    d = 2**11
    X, y = hashed_text(d)
    with warnings.catch_warnings(action="ignore"):
        peak = peak_bytes(lambda: model.fit(X, y))
    # Beside kernel matrices of all rows.
    assert peak < 8 * (copies * min(N, rows) * d + 4 * N**2)


def test_the_refusal_depends_on_the_limit_of_the_process(monkeypatch):
    X, y = hashed_text(2**10)
    model = next(build(m) for m in MACHINES if getattr(m.cls, "dense_rows", None))
    monkeypatch.setattr(process_memory, "data_bytes", lambda _: 0)
    monkeypatch.setattr("resource.getrlimit", lambda _: (2**20, 2**20))
    with pytest.raises(MemoryError, match="dense rows of 1024 columns, which takes about"):
        model.fit(X, y)
    assert model.fit(X.toarray()[:, :20], y).predict(X.toarray()[:, :20]).shape == y.shape
