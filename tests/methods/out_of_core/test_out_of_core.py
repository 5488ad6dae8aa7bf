"""Rows in chunks: the early-prediction DC-SVM out of core against the machine in memory."""

import importlib.util
import os
import pickle
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from chunk_rows import chunked
from sklearn.base import clone

from kbench.approximation import BKA
from kbench.chunked import Block, ChunkedRows
from kbench.clustering.shuffle_on_disk import spill
from kbench.errors import DataError, KbenchError, ModelError
from kbench.methods import (
    DCSVC,
    ApproximateRidge,
    DCKernelRidge,
    DCPredTrainedClassifier,
    KernelSVC,
    PegasosClassifier,
)
from kbench.methods.base.survey import ClassTargets, RealTargets, Survey
from kbench.methods.divide.early_svc_chunks import cluster_seed
from kbench.prediction import load_model, save_model
from kbench.prediction.local_models_file import MachineWriter
from kbench.trace import Trace

D = 5


def rows_of(n=700, n_classes=2, seed=0, dtype=np.float32):
    """Clusters of points, three on each side, with labels that a kernel machine can learn."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, D).astype(dtype) + 3 * rng.randint(-2, 3, size=(n, 1)).astype(dtype)
    y = (np.abs(X[:, 0] + 0.5 * X[:, 1]) * 1.5).astype(int) % n_classes
    return X, y


def model(n_clusters=6, **parameters):
    parameters = {"C": 2.0, "gamma": 0.3, "random_state": 0, "tol": 1e-3, **parameters}
    return DCSVC(n_clusters, **parameters)


def small(X, y, **options):
    """Rows with so little memory that there are several runs on disk."""
    return chunked(X, y, memory_mb=8 * 400 * D * X.dtype.itemsize / 2**20, **options)


@pytest.fixture(scope="module")
def data():
    return rows_of()


@pytest.fixture(scope="module")
def fitted(data):
    return model().fit(chunked(*data))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_each_machine_is_that_of_one_cluster_in_memory(n_classes, storage):
    X, y = rows_of(n_classes=n_classes)
    X = sp.csr_matrix(X * (np.abs(X) > 1)) if storage == "csr" else X
    found = model().fit(chunked(X, y, sizes=(99,)))
    labels = found._machine.assign(X)
    seed = np.random.RandomState(0).randint(2**31)
    values = found.decision_function(X)
    assert len(np.unique(labels)) == found.n_clusters_ == 6
    for cluster in range(6):
        own = np.flatnonzero(labels == cluster)
        twin = model(1, random_state=cluster_seed(seed, cluster))
        if len(np.unique(y[own])) < n_classes:
            continue  # alone, these rows are another problem
        alone = twin.fit(X[own], y[own])
        np.testing.assert_array_equal(values[own], alone.decision_function(X[own]))


def test_the_model_depends_neither_on_chunks_nor_on_memory_nor_on_jobs(data, fitted):
    X, y = data
    wanted = fitted.decision_function(X)
    for rows in (ChunkedRows.of_arrays(X, y), small(X, y), chunked(X, y, sizes=(1, 13))):
        again = model().fit(rows)
        np.testing.assert_array_equal(again.decision_function(X), wanted)
        assert again._machine.machines.records.data.tobytes() == (
            fitted._machine.machines.records.data.tobytes()
        )
    again = model(n_jobs=2).fit(small(X, y))
    np.testing.assert_array_equal(again.decision_function(X), wanted)


def test_prediction_and_score_in_chunks_are_those_of_the_array(data, fitted):
    X, y = data
    rows = small(X, y)
    np.testing.assert_array_equal(fitted.predict(rows), fitted.predict(X))
    assert fitted.score(rows) == fitted.score(X, y) > 0.7
    exact = KernelSVC(C=2.0, gamma=0.3).fit(X, y)
    assert exact.score(rows) == exact.score(X, y)


def test_one_cluster_is_the_exact_machine(data):
    X, y = data
    found = model(1, tol=1e-6, n_levels=1).fit(chunked(X, y))
    exact = model(1, combine="exact", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert found.objective_ == pytest.approx(exact.objective_, rel=1e-6)
    assert found.n_support_.tolist() == exact.n_support_.tolist()


def test_gamma_scale_and_class_weights_are_those_of_the_rows(data):
    X, y = data
    found = model(1, gamma="scale", class_weight="balanced", n_levels=1).fit(chunked(X, y))
    twin = model(1, gamma="scale", class_weight="balanced", n_levels=1).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), twin.decision_function(X), atol=2e-2)
    for weights in ("balanced", {0: 3.0}):
        kernel = model(1, class_weight=weights)
        targets = ClassTargets()
        Survey(chunked(X, y), targets, 10, 0)
        factors = targets.weights(weights)
        _, _, C = kernel._checked(X, y, None)
        np.testing.assert_allclose(2.0 * factors[y], C)


def test_the_sample_is_uniform_and_the_same_for_any_chunks(data):
    X, y = data
    X = np.arange(len(y), dtype=np.float32)[:, None] * np.ones(D, np.float32)
    drawn = [
        Survey(rows, ClassTargets(), 50, 7)
        for rows in (chunked(X, y), chunked(X, y, sizes=(3, 40)))
    ]
    np.testing.assert_array_equal(drawn[0].sample, drawn[1].sample)
    assert drawn[0].checksum == drawn[1].checksum
    counts = np.zeros(len(y))
    for seed in range(300):
        survey = Survey(ChunkedRows.of_arrays(X, y), ClassTargets(), 70, seed)
        counts[survey.sample[:, 0].astype(int)] += 1
    # 300 draws of a tenth of the rows: counts are binomial with mean 30, deviation 5.2.
    assert abs(counts.mean() - 30) < 1e-9
    assert counts.min() > 8
    assert counts.max() < 55


def test_a_survey_without_checksum_and_variance_finds_the_same_otherwise(data):
    X, y = data
    full = Survey(chunked(X, y), ClassTargets(), 50, 7)
    part = Survey(chunked(X, y), ClassTargets(), 50, 7, checksum=False, variance=False)
    np.testing.assert_array_equal(part.sample, full.sample)
    assert (part.n, part.nbytes) == (full.n, full.nbytes)
    np.testing.assert_allclose(full.variance, X.var(), rtol=1e-5)


def test_the_deviation_of_targets_far_from_0_keeps_its_digits(data):
    X, _ = data
    y = 1e9 + np.random.default_rng(0).normal(size=len(X))
    targets = RealTargets()
    Survey(ChunkedRows.of_arrays(X, y), targets, 10, 0)
    np.testing.assert_allclose(targets.deviation, y.std(), rtol=1e-6)


@pytest.mark.parametrize("n_clusters", [2, 300, 70_000])  # 8, 16 and 32 bits for a cluster's number
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_a_cluster_keep_their_order(tmp_path, n_clusters, order):
    rng = np.random.RandomState(0)
    X = np.asarray(rng.rand(500, 3), np.float32, order=order)
    labels = rng.randint(n_clusters - 2, n_clusters, 500)
    spilled = spill(
        ChunkedRows.of_arrays(X, np.arange(500)),
        lambda X, first: labels[first : first + len(X)],
        n_clusters,
        tmp_path / "rows",
        encode=lambda block: block.y,
        nbytes=X.nbytes,
    )
    for cluster in (n_clusters - 2, n_clusters - 1):
        rows, numbers = spilled.cluster(cluster)
        np.testing.assert_array_equal(numbers, np.flatnonzero(labels == cluster))
        np.testing.assert_array_equal(rows, X[labels == cluster])


def test_a_cluster_too_large_for_the_memory_is_divided(data):
    X, y = data
    memory = 2 * 150 * (2 * D * 4 + 100) / 2**20  # 150 rows of a cluster
    with pytest.warns(UserWarning, match="was divided into"):
        found = model(2).fit(chunked(X, y, memory_mb=memory))
    assert found.cluster_sizes_.max() <= 150
    assert found.cluster_sizes_.sum() == len(y)
    assert "does not fit into memory_mb" in found.notes_[0]
    labels = found._machine.assign(X)
    np.testing.assert_array_equal(np.bincount(labels), found.cluster_sizes_)
    seed = np.random.RandomState(0).randint(2**31)
    values = found.decision_function(X)
    for cluster in (0, found.n_clusters_ - 1):
        own = np.flatnonzero(labels == cluster)
        alone = model(1, random_state=cluster_seed(seed, cluster)).fit(X[own], y[own])
        np.testing.assert_array_equal(values[own], alone.decision_function(X[own]))


def test_equal_rows_that_do_not_fit_are_an_error():
    X, y = np.ones((500, D), np.float32), np.arange(500) % 2
    memory = 2 * 100 * (2 * D * 4 + 100) / 2**20
    with pytest.raises(KbenchError, match="500 rows of a cluster are equal"):
        model(2).fit(chunked(X, y, memory_mb=memory))


class _Stop(Trace):
    """Ends a fit after some clusters, by an exception or by killing the process."""

    def __init__(self, after, end):
        def look(_, state):
            if state.get("clusters_done") == after:
                end()

        super().__init__(look)


def _interrupt():
    raise KeyboardInterrupt


def _kill():
    os.kill(os.getpid(), signal.SIGKILL)


# Every estimator that trains clusters, leaves or subsets from disk, with five of them.
DIVIDED = [
    model(5),
    DCPredTrainedClassifier(5, gamma=0.3, epochs=2, min_rows=10, random_state=0),
    ApproximateRidge(BKA(5, gamma=0.3), alpha=0.1, error_rows=0, random_state=0),
    DCKernelRidge(5, alpha=0.1, gamma=0.3, random_state=0),
]


def name_of(estimator):
    return type(estimator).__name__


@pytest.mark.parametrize("estimator", DIVIDED, ids=name_of)
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_fit_that_has_ended_early_goes_on(data, tmp_path, estimator, how):
    rows = chunked(*data, scratch=tmp_path)
    if how == "interrupted":
        with pytest.raises(KeyboardInterrupt):
            clone(estimator).fit(rows, trace=_Stop(3, _interrupt))
    else:
        child = os.fork()
        if not child:
            try:
                clone(estimator).fit(rows, trace=_Stop(3, _kill))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def spilled():
        files = [file.stat() for file in tmp_path.rglob("run-*/*")]
        return sorted((file.st_ino, file.st_mtime_ns) for file in files)

    written, done, rewritten = spilled(), [], []

    def look(_, state):
        if "clusters_done" in state:
            done.append(state["clusters_done"])
            rewritten.append(spilled() != written)

    again = clone(estimator).fit(rows, trace=Trace(look))
    assert written
    assert done == [4, 5]
    assert not any(rewritten)
    assert again.notes_[0].startswith("an interrupted fit had trained 3 of 5 ")
    assert not list(tmp_path.iterdir())
    wanted = clone(estimator).fit(chunked(*data))
    values = getattr(type(again), "decision_function", type(again).predict)
    np.testing.assert_array_equal(values(again, data[0]), values(wanted, data[0]))
    assert again.kernel_entries_ == wanted.kernel_entries_


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs kbench[dask]")
def test_a_dask_cluster_that_loses_a_worker_makes_the_same_model(data, fitted):
    import joblib
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster):
        lost = next(iter(cluster.workers.values())).pid
        kill = _Stop(2, lambda: os.kill(lost, signal.SIGKILL))
        with joblib.parallel_config("dask"):
            again = model().fit(small(*data), trace=kill)
    packed = [found._machine.machines.records.data.tobytes() for found in (again, fitted)]
    assert packed[0] == packed[1]


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs kbench[dask]")
def test_a_dask_cluster_that_disappears_is_one_line_and_the_fit_goes_on_without_it(data, tmp_path):
    import joblib
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=1, **options) as cluster, Client(cluster):
        (worker,) = cluster.workers.values()

        def disappear():
            os.kill(worker.pid, signal.SIGKILL)  # so that it trains no other cluster meanwhile
            cluster.close()

        with (
            joblib.parallel_config("dask"),
            pytest.raises(KbenchError, match=r"Dask cluster at tcp://.* is lost: \d+ of 40 tasks"),
        ):
            model(40).fit(small(*data, scratch=tmp_path), trace=_Stop(1, disappear))
    again = model(40).fit(small(*data, scratch=tmp_path))
    assert re.match(r"an interrupted fit had trained \d+ of 40 clusters", again.notes_[0])
    wanted = model(40).fit(chunked(*data))
    assert again.decision_function(data[0]).tobytes() == wanted.decision_function(data[0]).tobytes()
    assert not list(tmp_path.iterdir())


def test_other_rows_or_parameters_do_not_go_on(data, tmp_path):
    X, y = data
    with pytest.raises(KeyboardInterrupt):
        model().fit(small(X, y, scratch=tmp_path), trace=_Stop(4, _interrupt))
    for parameters, labels in (({"C": 3.0}, y), ({}, 1 - y)):
        found = model(**parameters).fit(small(X, labels, scratch=tmp_path))
        wanted = model(**parameters).fit(chunked(X, labels))
        np.testing.assert_array_equal(found.decision_function(X), wanted.decision_function(X))


def test_what_a_fit_has_left_is_removed_by_another_fit_a_week_later(data, tmp_path):
    def left():
        return sorted(folder.name for folder in tmp_path.iterdir())

    def interrupt(**parameters):
        with pytest.raises(KeyboardInterrupt):
            model(**parameters).fit(small(*data, scratch=tmp_path), trace=_Stop(1, _interrupt))

    (tmp_path / "kbench-of-the-user").mkdir()
    interrupt(C=3.0)
    interrupt(C=4.0)
    model().fit(small(*data, scratch=tmp_path))
    assert len(left()) == 3

    def a_week_later():
        last_week = time.time() - 8 * 24 * 3600
        for lock in tmp_path.glob("kbench-*/lock"):
            os.utime(lock, (last_week, last_week))
        model().fit(small(*data, scratch=tmp_path))
        in_progress.extend(left())

    in_progress = []
    model(C=3.0).fit(small(*data, scratch=tmp_path), trace=_Stop(2, a_week_later))
    assert len(in_progress) == 2  # that with C = 4 is gone
    assert left() == ["kbench-of-the-user"]


def test_two_fits_do_not_share_a_folder(data, tmp_path):
    errors = []

    def second():
        with pytest.raises(KbenchError, match="in use by a fit of the same rows") as error:
            model().fit(small(*data, scratch=tmp_path))
        errors.append(error)

    model().fit(small(*data, scratch=tmp_path), trace=_Stop(2, second))
    assert len(errors) == 1
    assert not list(tmp_path.iterdir())


def test_a_disk_without_space_is_noticed_before_anything_is_written(data, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(KbenchError, match=r"0\.00 GB are free; set scratch to another folder"):
        model().fit(small(*data, scratch=tmp_path))
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["lock"]


@pytest.mark.parametrize("written", ["rows", "machines"])
def test_a_disk_that_becomes_full_leaves_nothing_incomplete(
    data, fitted, tmp_path, largest_file, written
):
    rows = small(*data, scratch=tmp_path)
    if written == "machines":
        with pytest.raises(KeyboardInterrupt):
            model().fit(rows, trace=_Stop(2, _interrupt))
        (file,) = tmp_path.rglob("machines")
        limit = file.stat().st_size + 100
    else:
        limit = 1000
    with largest_file(limit), pytest.raises(KbenchError, match="cannot write"):
        model().fit(rows)
    assert not list(tmp_path.rglob(".run*"))
    again = model().fit(rows)
    assert again.decision_function(data[0]).tobytes() == fitted.decision_function(data[0]).tobytes()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("estimator", [*DIVIDED, KernelSVC(kernel="linear")], ids=name_of)
def test_models_are_stored_and_pickled_with_their_machines(data, tmp_path, estimator):
    fitted = clone(estimator).fit(chunked(*data))
    values = getattr(type(fitted), "decision_function", type(fitted).predict)
    save_model(tmp_path / "model.npz", fitted)
    loaded = load_model(tmp_path / "model.npz").estimator
    for found in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(values(found, data[0]), values(fitted, data[0]))
        assert found.prediction_flops_ == fitted.prediction_flops_ > 0


def test_damaged_records_are_refused_and_cut_off(tmp_path):
    path = tmp_path / "machines"
    with MachineWriter(path) as writer:
        for cluster in range(3):
            writer.append(cluster, {"numbers": np.arange(10.0) + cluster})
        packed = writer.packed()
        assert packed[2]["numbers"].tolist() == list(np.arange(10.0) + 2)
    whole = path.read_bytes()
    size = len(whole) // 3
    for content in (whole[: 2 * size + 70], whole[: 2 * size + 10], whole[:-9] + b"x" * 9):
        path.write_bytes(content)
        with MachineWriter(path) as writer:
            assert sorted(writer.offsets) == [0, 1]
        assert path.read_bytes() == whole[: 2 * size]
    damaged = np.frombuffer(whole, np.uint8).copy()
    packed.data = damaged
    for place, value in ((0, 0), (8, 9), (16, 0xFF), (70, ord("}"))):
        damaged[place], kept = value, damaged[place]
        with pytest.raises(ModelError):
            packed[0]
        damaged[place] = kept
    packed.data = damaged[: size + 80]
    with pytest.raises(ModelError, match="beyond the end"):
        packed[1]


def blocks(*found):
    return ChunkedRows(lambda _: iter(found), n_features=D)


def test_what_is_wrong_with_a_chunk_is_named(data):
    X, y = data
    good = (X[:50], y[:50])
    bad = X[50:100].copy()
    bad[3, 2] = np.nan
    texts = np.array(["a"] * 50)
    for found, message in (
        (Block(X[50:, :4], y[50:], "b, chunk 1"), "b, chunk 1: 4 columns, should be 5"),
        ((bad, y[50:100]), "chunk 2: row 4 of the chunk has nan in column 3, should be a finite"),
        ((sp.csr_matrix(bad), y[50:100]), "chunk 2: row 4 of the chunk has nan in column 3"),
        ((X[50:100], y[50:99]), "chunk 2: 49 targets for 50 rows"),
        ((X[50:100], texts), "chunk 2: a label is a text, labels before it are not"),
        ((X[50:100], y[50:100] + np.array([0.0] * 49 + [np.inf])), "chunk 2: row 50 has the label"),
        ((X[50:100], None), "chunk 2: rows to learn from have no targets"),
    ):
        rows = blocks(good, found)
        rows.memory_mb = 8 * 50 * D * 4 / 2**20  # blocks of 50 rows
        with pytest.raises(DataError, match=message):
            model().fit(rows)


def test_rows_without_two_classes_are_refused(data):
    X, _ = data
    with pytest.raises(ValueError, match="1 class"):
        model().fit(blocks((X, np.ones(len(X), int))))
    with pytest.raises(DataError, match="there are no rows"):
        model().fit(blocks((X[:0], np.empty(0, int))))


def test_a_class_may_be_missing_in_a_chunk_and_in_a_cluster():
    X = np.repeat(np.eye(3, D, dtype=np.float32) * 100, 40, axis=0)
    X += np.random.RandomState(0).rand(*X.shape).astype(np.float32)
    y = np.repeat(["a", "b", "c"], 40)
    rows = chunked(X, y, sizes=(40,))
    found = model(3, gamma=0.1).fit(rows)
    assert found.classes_.tolist() == ["a", "b", "c"]
    assert found.predict(rows).tolist() == y.tolist()


def test_settings_that_need_memory_are_refused(data):
    rows = chunked(*data)
    for parameters, message in (
        ({"combine": "naive"}, "combine='naive' needs all rows in memory"),
        ({"partition": "kernel_kmeans"}, "partition='kernel_kmeans' needs all rows"),
        ({"kernel": "precomputed", "partition": "kmeans"}, "kernel='precomputed'"),
        ({"max_time": 1.0}, "max_time"),
    ):
        with pytest.raises(ValueError, match=message):
            model(**parameters).fit(rows)
    with pytest.raises(ValueError, match="contain their targets"):
        model().fit(rows, data[1])
    with pytest.raises(ValueError, match="contain their targets"):
        model().fit(chunked(*data)).score(rows, data[1])


@pytest.mark.parametrize("features", ["fourier", "nystrom"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_pegasos_takes_the_steps_of_its_stream(features, n_classes):
    X, y = rows_of(640, n_classes)
    options = {"gamma": 0.3, "batch_size": 32, "features": features, "random_state": 0}
    found = PegasosClassifier(64, n_epochs=1, **options).fit(chunked(X, y))
    again = PegasosClassifier(64, n_epochs=1, **options).fit(chunked(X, y, sizes=(3, 500)))
    np.testing.assert_array_equal(found.coef_, again.coef_)
    assert found.n_iter_ == 20
    assert found.n_seen_ == 640
    assert found.score(chunked(X, y)) == found.score(X, y)
    if features == "fourier":  # the features of the stream are those of its first chunk
        whole = PegasosClassifier(64, **options).partial_fit(X, y, classes=np.unique(y))
        np.testing.assert_array_equal(found.coef_, whole.coef_)
        twice = PegasosClassifier(64, n_epochs=2, **options).fit(chunked(X, y))
        np.testing.assert_array_equal(twice.coef_, whole.partial_fit(X, y).coef_)
    with pytest.raises(ValueError, match="probability=True needs all rows in memory"):
        PegasosClassifier(64, probability=True).fit(chunked(X, y))


def test_a_temporary_folder_is_removed(data, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = model().fit(small(*data))
    assert not list(tmp_path.iterdir())
    assert found.score(small(*data)) > 0.7
    with pytest.raises(KeyboardInterrupt):
        model().fit(small(*data), trace=_Stop(2, _interrupt))
    assert not list(Path(tmp_path).iterdir())
