"""Runs whose rows are read in chunks, alone and with a Dask cluster that trains the clusters."""

import contextlib
import importlib.util
import os
import signal
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from harness import a_task, kbench, rows, start, wait_for, workers

from kbench.config import composer
from kbench.errors import ConfigError, UnavailableError
from kbench.methods import DCSVC
from kbench.methods.out_of_core.workers import results_in_order
from kbench.run.execution import chunked, dask_fit, measure
from kbench.run.execution.dask_fit import joblib_on
from kbench.settings import Limits, settings
from kbench.trace import Trace

WORDS = ("method=dcsvm_early", "dataset=digits", "dataset.chunks=always", "method.n_clusters=4")


def task(chunks="auto", memory_mb=None):
    limits = Limits(memory_mb=memory_mb)
    return a_task(method="some_method", dataset_config={"chunks": chunks}, limits=limits)


DATA = SimpleNamespace(
    X_train=np.zeros((3 << 16, 4), np.float32),  # 3 MiB
    X_test=np.zeros((1 << 16, 4), np.float32),  # 1 MiB
    y_train=np.zeros(3 << 16, np.int32),
    y_test=np.zeros(1 << 16, np.int32),
)


@pytest.mark.parametrize(
    ("chunks", "memory_mb", "expected"),
    [
        ("auto", None, False),
        ("auto", 8, False),
        ("auto", 7.9, True),
        ("never", 1, False),
        ("always", None, True),
        ("always", 1000, True),
    ],
)
def test_auto_compares_the_arrays_with_the_limit_of_memory(chunks, memory_mb, expected):
    asked = task(chunks, memory_mb)
    assert chunked.wants_chunks(asked, DATA, DCSVC()) == expected
    found = chunked.rows_in_chunks(asked, DATA, DCSVC())
    assert (found is not None) == expected
    if found is not None:
        assert found.train.shape == DATA.X_train.shape
        assert found.test.shape == DATA.X_test.shape
        assert "rows were read in chunks: 4 MiB of rows" in found.note
        if memory_mb:
            assert f"limits.memory_mb={memory_mb:g}" in found.note
            assert found.train.memory_mb < memory_mb


def test_a_method_that_needs_all_rows_gets_them_or_says_so():
    for method in (DCSVC(combine="exact"), DCSVC(partition="kernel_kmeans"), object()):
        assert not chunked.wants_chunks(task("auto", 1), DATA, method)
        with pytest.raises(ConfigError, match="some_method with these parameters needs all rows"):
            chunked.wants_chunks(task("always"), DATA, method)


def test_a_run_reads_chunks_and_its_row_says_so(tmp_path):
    methods = ("-m", "method=dcsvm_early,knn", "dataset=digits", "dataset.chunks=always")
    kbench(tmp_path, *methods, check=1)
    found = rows(tmp_path).set_index("method")
    assert found["status"].to_dict() == {"dcsvm_early": "ok", "knn": "error"}
    assert "rows were read in chunks" in found.loc["dcsvm_early", "message"]
    assert "needs all rows in memory" in found.loc["knn", "message"]
    assert found.loc["dcsvm_early", "accuracy"] > 0.95


def test_a_run_that_was_killed_goes_on_with_the_clusters_that_are_trained(tmp_path):
    X = np.random.RandomState(0).rand(400, 3).astype(np.float32)
    y = (X[:, 0] > X[:, 1]).astype(int)
    data = SimpleNamespace(X_train=X, y_train=y, X_test=X, y_test=y)
    asked = replace(task("always"), prepared=str(tmp_path))

    def kill(_, state):
        if state.get("clusters_done") == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    def fit(**options):
        rows = chunked.rows_in_chunks(asked, data, DCSVC())
        return DCSVC(5, random_state=0).fit(rows.train, **options)

    child = os.fork()
    if not child:
        fit(trace=Trace(kill))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert "an interrupted fit had trained 3 of 5 clusters" in fit().notes_[0]
    assert fit().notes_ == []
    assert not list((tmp_path / "scratch").iterdir())


PAUSING = """
name: pausing
estimator: pausing.Pausing
meta: {about: stands still, tasks: [binary, multiclass]}
n_clusters: 5
"""
DASK = pytest.param(
    ["parallel=dask", "parallel.split=model"],
    marks=pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None, reason="needs kbench[dask]"
    ),
    id="dask",
)


@pytest.mark.parametrize("words", [pytest.param([], id="here"), DASK])
def test_the_command_of_a_killed_runner_goes_on_where_it_was(config_file, tmp_path, words):
    config_file("method/pausing.yaml", PAUSING)
    command = ["method=pausing", "dataset=digits", "dataset.chunks=always", *words]
    runner = start(tmp_path, *command)
    wait_for((tmp_path / "paused").exists)
    runner.kill()
    runner.communicate()
    # The worker, and each process of the cluster, fit a few rows before the clock began.
    assert len(list(tmp_path.glob("warm-*"))) == (3 if words else 1)
    wait_for(lambda: not workers(tmp_path))
    (tmp_path / "go").touch()
    kbench(tmp_path, *command, check=0)
    (row,) = rows(tmp_path).to_dict("records")
    assert row["status"] == "ok"
    assert "an interrupted fit had trained 3 of 5 clusters" in row["message"]
    assert not [path for path in tmp_path.rglob("scratch/*") if path.is_dir()]


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs kbench[dask]")
def test_a_cluster_that_trains_a_model_gives_the_row_of_this_machine(tmp_path):
    same = ["key", "message", "accuracy", "n_support", "n_iter", "objective", "model_bytes"]
    kbench(tmp_path, *WORDS, check=0)
    alone = rows(tmp_path)[same].to_dict("records")
    kbench(tmp_path, *WORDS, "parallel=dask", "parallel.split=model", "rerun=all", check=0)
    again = rows(tmp_path).query("attempt == 2")
    assert again[same].to_dict("records") == alone
    assert again["jobs"].tolist() == [2]


def test_cpu_seconds_of_the_workers_are_those_of_the_fit():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        joblib_on(cluster.scheduler_address, lambda: None) as workers_cpu_s,
        measure.Stopwatch(None, workers_cpu_s) as watch,
    ):
        before = time.process_time()
        assert len(list(results_in_order(sum, [(range(30_000_000),)], None))) == 1
        here = time.process_time() - before
    assert watch.cpu_s - here > 0.1  # such a sum takes a third of a second and more


def _dies_once(folder):
    """End this process, if no other one has done so in its place."""
    for name in range(2):
        with contextlib.suppress(FileExistsError):
            (folder / str(name)).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_fit_begins_though_all_workers_are_lost_in_the_warm_up(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        joblib_on(cluster.scheduler_address, partial(_dies_once, tmp_path)),
    ):
        assert len(list(results_in_order(sum, [(range(3),)], None))) == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_a_model_is_divided_by_dask_alone():
    with composer() as compose:
        for words, message in (
            (["parallel=ray", "parallel.split=model"], "split=model needs parallel=dask"),
            (["parallel=dask", "parallel.split=rows"], "should be runs or model"),
            (["parallel=dask", "parallel.address="], "parallel.address is empty"),
            (
                ["parallel=dask", "parallel.address=tcp://a:1", "+parallel.options.n_workers=2"],
                "parallel.options are those of a local Dask cluster",
            ),
        ):
            config = compose.compose(["method=svc", "dataset=digits", *words])
            with pytest.raises(ConfigError, match=message):
                settings(config)


class OtherKbench:
    """Stands for Dask's client; one of two workers has another kbench."""

    def run(self, function, on_error):
        return {"tcp://a": function(), "tcp://b": "0.0.1"}


def test_a_worker_with_another_kbench_trains_no_part_of_a_model():
    with pytest.raises(UnavailableError, match=r"worker tcp://b has kbench 0\.0\.1, should have"):
        dask_fit._require_version(OtherKbench())
