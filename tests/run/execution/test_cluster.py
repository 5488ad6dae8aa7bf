"""Plans on clusters: the same rows as on this machine, lost workers, interrupts."""

import importlib.util
import math
import signal
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import broken_engines
import pandas as pd
import pytest
from harness import YAML, a_task, furnish, kbench, planned, rows, run_here, start, wait_for, workers

from kbench.errors import ConfigError
from kbench.run.execution import cluster
from kbench.run.execution.engines import daemons, on_node, states
from kbench.run.execution.preparing import obtain_in
from kbench.run.execution.sandbox import Sandbox
from kbench.run.execution.worker import work
from kbench.settings import Limits, Settings

SAME = ["key", "status", "n_train", "n_test", "accuracy", "f1", "threads", "environment", "params"]


def engine(name, module):
    absent = importlib.util.find_spec(module) is None
    reason = f"{module} is not installed: pip install 'kbench[{name}]'"
    return pytest.param(name, marks=pytest.mark.skipif(absent, reason=reason))


DASK, RAY = engine("dask", "distributed"), engine("ray", "ray")
SLURM = engine("slurm", "submitit")
LOCAL = {"slurm": ["parallel.options={cluster: local}", "parallel.jobs=2"]}


@pytest.fixture
def here(tmp_path):
    furnish(tmp_path)
    text = YAML.format(name="takes_its_host", cls="Naughty", how="takes_its_host_along")
    (tmp_path / "configs/method/takes_its_host.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("backend", [DASK, RAY, SLURM])
def test_a_cluster_writes_the_rows_that_this_machine_writes(here, backend):
    sweep = ["-m", "method=svc,is_killed", "dataset=digits", "seed=0,1"]
    run_here(here, *sweep, "results_dir=alone", check=1)
    kbench(here, *sweep, f"parallel={backend}", *LOCAL.get(backend, []), check=1)
    alone, together = (
        pd.read_parquet(here / folder)[SAME].sort_values("key", ignore_index=True)
        for folder in ("alone", "results")
    )
    pd.testing.assert_frame_equal(alone, together)
    assert set(rows(here)["jobs"]) == {2}
    again = run_here(here, *sweep, f"parallel={backend}", *LOCAL.get(backend, []), check=1)
    assert "nothing to do" in again.stdout


@pytest.mark.parametrize("backend", [DASK])
@pytest.mark.parametrize(("deaths", "status"), [(1, "ok"), (9, "crashed")])
def test_a_run_whose_host_dies_is_started_once_more(here, backend, deaths, status):
    marker = here / "attempts"
    command = ["method=takes_its_host", f"method.marker={marker}", f"method.value={deaths}"]
    done = kbench(here, *command, f"parallel={backend}", check=int(status != "ok"))
    assert done.stderr.count("the run is started once more") == 1
    assert len(marker.read_text()) == states.ATTEMPTS
    row = rows(here).iloc[0]
    assert row["status"] == status
    if status == "crashed":
        assert "its worker process was lost 2 times" in row["message"]
    assert not workers(here)


@pytest.mark.parametrize("backend", [DASK, RAY, SLURM])
def test_an_interrupt_ends_the_runs_of_a_cluster(here, backend):
    sweep = ["-m", "method=hangs", f"method.marker={here}/started", "seed=0,1,2"]
    running = start(here, *sweep, f"parallel={backend}", *LOCAL.get(backend, []))
    wait_for(lambda: len(list(here.glob("started-*"))) == 2)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert list(rows(here)["status"]) == ["interrupted"] * 2
    wait_for(lambda: not workers(here))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["limits.wall_s=3600", "parallel.options.timeout_min=30"], "limits.wall_s=3600 is above"),
        (["limits.memory_mb=9000", "parallel.options.mem_gb=8"], "limits.memory_mb=9000 is above"),
        (["+parallel.options.cpus_per_task=0.5"], "limits.threads=1 is above"),
        (["parallel.options.timeout_min=0"], "timeout_min"),
        (["parallel.options.mem_gb=much"], "mem_gb"),
        *(
            ([f"+parallel.options.{name}={value}"], f"parallel.options.{name} is")
            for name, value in {
                **dict.fromkeys(
                    ("slurm_time", "slurm_mem_gb", "nodes", "name", "slurm_job_name"), 2
                ),
                "slurm_additional_parameters.ntasks": 4,
                "slurm_additional_parameters.mem-per-cpu": "1G",
            }.items()
        ),
        (["parallel.runs_per_job=0"], "runs_per_job"),
        (["parallel.model_mb=-1"], "model_mb"),
    ],
)
def test_a_plan_refuses_limits_that_do_not_fit_together(words, named):
    with pytest.raises(ConfigError, match=named):
        planned("method=dummy", "dataset=digits", "parallel=slurm", *words)


def test_limits_of_a_job_follow_from_those_of_a_run():
    limits = Limits(wall_s=600.0, setup_s=60.0, memory_mb=3000.0, threads=1)
    options = Settings().parallel.slurm_options(limits)
    assert options == {"cpus_per_task": 1, "timeout_min": 18, "mem_gb": 4}
    limits = Limits(wall_s=60.0, setup_s=math.inf, memory_mb=math.inf)
    without = Settings().parallel.slurm_options(Limits(wall_s=None))
    assert Settings().parallel.slurm_options(limits) == without


class Daemons(daemons._Daemons):
    """Has workers until `left` is set to 0, or its scheduler is gone."""

    left = 1

    def _ask(self):
        if self.left < 0:
            raise OSError("the scheduler is gone")
        return self.left


@pytest.mark.parametrize("left", [0, -1])
def test_a_cluster_without_workers_is_given_up(monkeypatch, left):
    monkeypatch.setattr(daemons, "_POLL_S", 0.0)
    monkeypatch.setattr(daemons, "_LOST_S", 0.05)
    engine = Daemons(Settings())
    engine._check_workers()
    engine.left = left
    engine._check_workers()
    time.sleep(0.06)
    with pytest.raises(states.ClusterLostError, match=r"has had no worker for 0\.05 s"):
        engine._check_workers()


def test_a_command_that_was_stopped_gives_no_cluster_up(monkeypatch):
    """After a stop of the process there may be no worker yet, as of a local cluster."""
    monkeypatch.setattr(daemons, "_ANSWER_S", 0.0)
    engine = Daemons(Settings())
    engine.left = 0
    engine._seen -= 2 * daemons._LOST_S
    engine._polled -= 2 * daemons._LOST_S
    engine._check_workers()


def test_a_ray_whose_nodes_have_too_few_cpus_says_so():
    engine = object.__new__(daemons.Ray)
    settings = Settings(limits=Limits(threads=8))
    daemons._Daemons.__init__(engine, settings)
    nodes = [{"Alive": True, "Resources": {"CPU": 4.0}}, {"Alive": True, "Resources": {}}]
    engine._threads, engine._ray = 8, SimpleNamespace(nodes=lambda: nodes)
    engine._seen -= daemons._LOST_S
    engine._polled -= daemons._POLL_S
    words = r"CPUs for limits\.threads=8, the largest of 2 nodes has 4"
    with pytest.raises(states.ClusterLostError, match=words):
        engine._check_workers()


class SilentWorker:
    """Stands for Dask's client. The cluster has two workers, and one sends no heartbeats."""

    scheduler, status = SimpleNamespace(identity=None), "running"

    def sync(self, ask, callback_timeout):
        beats = {"tcp://a": 1.0, "tcp://b": time.monotonic()}
        return {"workers": {a: {"nthreads": 1, "last_seen": beats[a]} for a in beats}}


def test_a_worker_of_dask_that_is_stopped_is_said_and_does_not_count(monkeypatch):
    monkeypatch.setattr(daemons, "_POLL_S", 0.0)
    monkeypatch.setattr(daemons, "_LOST_S", 0.05)
    engine = object.__new__(daemons.Dask)
    daemons._Daemons.__init__(engine, Settings())
    engine._client, engine._beats, engine._n_silent = SilentWorker(), {}, 0
    assert engine._ask() == 2
    assert engine.waits_for() is None
    time.sleep(0.06)
    assert engine._ask() == 1
    assert engine.waits_for() == "1 worker of 2, silent for more than 0.05 s"


def test_an_address_at_which_nothing_answers_is_said_and_given_up(monkeypatch, caplog):
    monkeypatch.setattr(cluster, "_OPEN_S", 0.5)
    monkeypatch.setattr(cluster, "_LOOK_S", 0.05)
    monkeypatch.setattr(cluster, "MESSAGE_INTERVAL_S", 0.1)
    settings = Settings()
    settings.parallel = replace(settings.parallel, backend="dask", address="tcp://here:1")
    name = "dask at parallel.address=tcp://here:1 has not answered for"
    with pytest.raises(ConfigError, match=rf"{name} 0\.5 s; is that the address of a scheduler of"):
        cluster.Cluster(settings, [], broken_engines.NeverConnects)
    assert name in caplog.messages[0]


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A function that opens a cluster of a broken engine and starts n runs there."""
    monkeypatch.setattr(cluster, "_CLOSE_S", 0.5)
    made = []

    def open_it(engine, n):
        runs, task = cluster.Cluster(Settings(), [], engine), a_task(tmp_path / "prepared" / "x")
        made.append(runs)
        return runs, [runs.start(None, task, Limits()) for _ in range(n)]

    yield open_it
    for each in made:
        each.close()
        assert not each._process.is_alive()
        assert not list(tmp_path.rglob(".shared-*"))


def outcomes(runs, jobs, within=20.0):
    deadline = time.monotonic() + within
    while not all(job.outcome for job in jobs):
        runs.ready([job for job in jobs if job.outcome is None], 0.05)
        assert time.monotonic() < deadline
    return [(job.news().status, job.news().message) for job in jobs]


LOST = [broken_engines.Ends, broken_engines.Raises, broken_engines.Loses, broken_engines.Hangs]


@pytest.mark.parametrize("engine", LOST)
def test_a_library_that_ends_or_hangs_interrupts_runs_in_progress(opened, tmp_path, caplog, engine):
    runs, jobs = opened(engine, 3)
    lost = "the cluster is lost"
    assert outcomes(runs, jobs) == [("interrupted", lost)] * 2 + [(states.REFUSED, lost)]
    late = runs.start(None, a_task(tmp_path / "prepared" / "x"), Limits())
    assert outcomes(runs, [late]) == [(states.REFUSED, lost)]
    (line,) = caplog.messages
    why = "has not answered for 0.3 s" if engine is broken_engines.Hangs else "says goodbye"
    assert why in line
    assert line.endswith("its runs are interrupted; start the same command again to go on")


def test_runs_of_a_cluster_that_never_had_a_worker_are_refused(opened):
    runs, jobs = opened(broken_engines.NeverBegins, 3)
    assert outcomes(runs, jobs) == [(states.REFUSED, "no worker came")] * 3


def test_an_interrupt_ends_the_wait_for_a_library_that_hangs(opened, monkeypatch):
    monkeypatch.setattr(cluster, "_STOP_S", 0.1)
    runs, jobs = opened(broken_engines.HangsWithoutEnd, 3)
    deadline = time.monotonic() + 20.0
    while not jobs[1].begun:
        assert not runs.ready(jobs, 0.1)
        assert time.monotonic() < deadline
    jobs[0].interrupt()
    stopped = "stopped by the user"
    assert outcomes(runs, jobs) == [("interrupted", stopped)] * 2 + [(states.REFUSED, stopped)]


def test_an_engine_is_not_silent_while_the_command_is_stopped(opened):
    runs, (job,) = opened(broken_engines.Waits, 1)
    runs._listened_at -= 600.0
    runs._heard_at -= 600.0
    assert not runs.ready([job], 0.0)
    assert job.outcome is None


def test_runs_of_an_engine_that_works(opened):
    runs, jobs = opened(broken_engines.Works, 50)
    assert outcomes(runs, jobs) == [("ok", "")] * 50
    assert {job.outcome.at_once for job in jobs} == {3}  # as many as the engine does at a time


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (broken_engines.Waits, "2 runs to do, waiting for a worker"),
        (broken_engines.QueuesAnew, "2 runs to do, waiting for a worker"),
        (broken_engines.BeginsNone, "2 runs to do, waiting for a worker of loky that begins one"),
    ],
)
def test_what_runs_wait_for_is_said(opened, caplog, monkeypatch, engine, said):
    monkeypatch.setattr(cluster, "MESSAGE_INTERVAL_S", 0.2)
    runs, jobs = opened(engine, 2)
    deadline = time.monotonic() + 20.0
    while said not in caplog.messages:
        runs.ready(jobs, 0.05)
        assert time.monotonic() < deadline


FAILURES = [broken_engines.EndsAtOnce, broken_engines.Refuses, broken_engines.Fails]


@pytest.mark.parametrize("engine", FAILURES)
def test_an_engine_that_cannot_be_opened_is_one_line(engine):
    with pytest.raises(ConfigError, match=r"^.*the library says goodbye$"):
        cluster.Cluster(Settings(), [], engine)


def test_data_that_a_machine_lacks_are_prepared_there(tmp_path, monkeypatch):
    """A task names the runner's prepared folder; without it the config and the checksum decide."""
    from kbench.config import composer
    from kbench.run.planning.plan import make_plan

    monkeypatch.chdir(tmp_path)
    sandbox = Sandbox()
    with composer() as hydra:
        plan = make_plan(hydra, ["method=knn", "dataset=digits"], obtain=obtain_in(sandbox))
    run = plan.runs[0]
    task = plan.task(run)
    elsewhere = replace(task, prepared="/nowhere", datasets_dir=str(tmp_path / "other"))
    prepared = on_node.prepared_here(elsewhere, sandbox)
    assert prepared.is_relative_to(tmp_path / "other")
    other = replace(elsewhere, run=replace(run, data_sha256="0000"))
    with pytest.raises(on_node.DataError, match=r"digits differs on .* should be 0000"):
        on_node.prepared_here(other, sandbox)
    kept = tmp_path / "results" / "_models" / "model.npz"
    lent = replace(elsewhere, model=str(kept))
    call = on_node.Call((), work, lent, run.limits, 1, on_node.Proof(), 64.0)
    # The folder is here, and nothing proves that it is the runner's.
    kept.parent.mkdir(parents=True)
    outcome = on_node.run_guarded(call)
    assert (outcome.status, outcome.result["row"]["model"]) == ("ok", "_models/model.npz")
    assert not kept.exists()
    too_large = on_node.run_guarded(replace(call, model_mb=1e-6))
    assert too_large.model is None
    assert "model" not in too_large.result["row"]
    assert f"does not share the runner's folder {tmp_path / 'results'}" in too_large.message
    assert "larger than parallel.model_mb=1e-06" in too_large.message
    threads = replace(call, limits=Limits(threads=5000))
    assert "limits.threads is 5000" in on_node.run_guarded(threads).message
    call.proof.write(tmp_path / "results")
    assert on_node.run_guarded(call).model is None
    assert kept.is_file()


@pytest.mark.parametrize("backend", cluster._ENGINES)
def test_a_missing_engine_is_one_line(monkeypatch, tmp_path, backend):
    module = {"dask": "distributed", "ray": "ray", "slurm": "submitit"}[backend]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ConfigError, match=rf"needs the package {module}: pip install 'kbench\[{backend}"
    ):
        cluster._ENGINES[backend](Settings(results_dir=str(tmp_path)), None)


@pytest.mark.parametrize("backend", [DASK])
def test_a_cluster_that_is_not_there_is_one_line(here, backend):
    done = kbench(here, "method=dummy", f"parallel={backend}", "parallel.address=tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "parallel.address=tcp://127.0.0.1:9" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("backend", [SLURM])
def test_a_cluster_that_has_a_failed_run_begins_no_other(here, backend):
    sweep = ["-m", "method=raises", "seed=0,1,2", "on_error=stop", "parallel.jobs=1"]
    done = kbench(here, *sweep, f"parallel={backend}", LOCAL[backend][0], check=1)
    assert len(rows(here)) == 1
    assert "2 not begun" in done.stdout
