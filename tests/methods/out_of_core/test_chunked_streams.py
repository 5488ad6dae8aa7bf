"""Linearised machines and doubly SGD on rows in chunks are those of the same rows in memory."""

import importlib.util
import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from chunk_rows import N, chunked, in_the_order_of_the_sample, rows_of
from sklearn.base import clone

from kbench.approximation import Nystrom, RandomFourierFeatures
from kbench.methods import DoublySGDClassifier, DoublySGDRegressor, LinearizedSVC, SDCAClassifier
from kbench.trace import Trace

FOURIER = RandomFourierFeatures(60, gamma=0.3)


@pytest.mark.parametrize("targets", ["two", "three"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(
    "model",
    [
        LinearizedSVC(FOURIER, C=2.0, random_state=0, memory_mb=0.03),
        LinearizedSVC(FOURIER, loss="squared_hinge", class_weight="balanced", random_state=0),
        SDCAClassifier(40, gamma=0.3, random_state=0, nu=1e-2, tol=0.1),
    ],
    ids=["several blocks", "one block", "sdca"],
)
def test_the_linear_dual_takes_the_same_steps_as_in_memory(model, storage, targets):
    X, y = rows_of(targets=targets)
    X = sp.csr_matrix(X) if storage == "csr" else X
    rows = chunked(X, y, sizes=(99,))
    twin = clone(model).fit(X, y)
    found = clone(model).fit(rows)
    np.testing.assert_array_equal(found.coef_, twin.coef_)
    assert found.n_iter_ == twin.n_iter_
    assert found.n_support_.tolist() == twin.n_support_.tolist()
    assert found.score(rows) == twin.score(X, y)


def test_landmarks_are_chosen_on_the_sample():
    X, y = rows_of(targets="two")
    model = LinearizedSVC(Nystrom(30, landmarks="kmeans"), C="loo", tol=1e-3, random_state=0)
    found, twin = clone(model).fit(chunked(X, y)), clone(model).fit(X, y)
    assert found.C_ in (twin.C_ / 4, twin.C_, twin.C_ * 4)
    assert found.score(X, y) == pytest.approx(twin.score(X, y), abs=0.03)
    with pytest.raises(ValueError, match="probability=True needs all rows"):
        clone(model).set_params(probability=True).fit(chunked(X, y))


def stochastic(targets, **parameters):
    cls = DoublySGDRegressor if targets in ("real", "several") else DoublySGDClassifier
    options = {"block_size": 32, "batch_size": 60, "gamma": 0.3, "random_state": 0}
    return cls(**{**options, **parameters})


@pytest.mark.parametrize("targets", ["real", "several", "two", "three"])
def test_doubly_sgd_takes_the_steps_of_its_stream(targets):
    X, y = rows_of(targets=targets)
    found = stochastic(targets).fit(chunked(X, y))
    again = stochastic(targets).fit(chunked(X, y, sizes=(7,), memory_mb=0.01))
    np.testing.assert_array_equal(found.coef_, again.coef_)
    assert (found.n_iter_, found.n_seen_) == (N // 60, N)
    # The first chunk of a stream, all rows here, determines the map of the rows.
    stream = stochastic(targets).partial_fit(X, y)
    np.testing.assert_allclose(found.predict(X), stream.predict(X), rtol=1e-3, atol=1e-3)
    twice = stochastic(targets, n_epochs=2).fit(chunked(X, y))
    stream.partial_fit(X, y)
    np.testing.assert_allclose(twice.predict(X), stream.predict(X), rtol=1e-3, atol=1e-3)
    assert twice.score(chunked(X, y)) == pytest.approx(twice.score(X, y), abs=1e-12)


def test_weights_of_classes_and_averages_are_those_in_memory():
    X, y = rows_of(targets="three")
    options = {"class_weight": "balanced", "average": 0.5}
    model = stochastic("three", batch_size=N, n_epochs=4, **options)  # the batch is all rows
    found = clone(model).fit(chunked(X, y))
    twin = clone(model).fit(*in_the_order_of_the_sample(X, y))
    np.testing.assert_allclose(
        found.decision_function(X), twin.decision_function(X), rtol=1e-2, atol=1e-2
    )


def test_a_killed_stream_goes_on(tmp_path):
    X, y = rows_of()
    path = str(tmp_path / "checkpoint")
    options = {"n_epochs": 2, "checkpoint": path, "checkpoint_s": 0.0}

    def kill(_, state):
        if state["samples"] == N + 240:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        stochastic("real", **options).fit(chunked(X, y), trace=Trace(kill))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    seen = []
    found = stochastic("real", **options).fit(
        chunked(X, y), trace=Trace(lambda _, state: seen.append(state["samples"]))
    )
    assert seen[0] == N + 240  # the step that was killed before its checkpoint was written
    wanted = stochastic("real", n_epochs=2).fit(chunked(X, y))
    np.testing.assert_array_equal(found.coef_, wanted.coef_)


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs kbench[dask]")
def test_shards_on_dask_workers_are_those_of_one_process():
    """The same bits here, on two workers, and on four of which one is lost at the third step."""
    import joblib
    from distributed import Client, LocalCluster

    X, y = rows_of(targets="three")
    model = stochastic("three", n_shards=4, n_epochs=2)
    wanted, losses = clone(model), []
    wanted.fit(chunked(X, y), trace=Trace(lambda _, state: losses.append(state["loss"])))
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        first = next(iter(cluster.workers.values())).pid
        seen = []

        def lose(_, state):
            seen.append(state["loss"])
            if len(seen) == 3:
                os.kill(first, signal.SIGKILL)

        with joblib.parallel_config("dask"):
            both = clone(model).fit(chunked(X, y))
            cluster.scale(4)
            client.wait_for_workers(4)
            lost = clone(model).fit(chunked(X, y), trace=Trace(lose))
    for found in (both, lost):
        np.testing.assert_array_equal(found.coef_, wanted.coef_)
    assert seen == losses
    one = clone(model).set_params(n_shards=1).fit(chunked(X, y))
    np.testing.assert_allclose(
        one.decision_function(X), wanted.decision_function(X), rtol=1e-3, atol=1e-3
    )


def test_copies_of_rows_are_passes_of_the_stream():
    X, y = rows_of()
    X = np.abs(np.hstack([X] * 4))  # images of 4 x 4 pixels
    copies = []

    class Noted(DoublySGDRegressor):
        def _prepare_rows(self, X, rows, copy):
            copies.append((rows[0], copy[0]))
            return super()._prepare_rows(X, rows, copy)

    model = Noted(block_size=32, batch_size=300, gamma=0.3, virtual="shifts", n_copies=2)
    found = model.set_params(random_state=0).fit(chunked(X, y))
    assert copies == [(0, 0), (300, 0), (0, 1), (300, 1)]
    assert found.n_seen_ == 2 * N
