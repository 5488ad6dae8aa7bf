"""Plans on clusters: the same rows as on this machine, lost workers, interrupts."""

import importlib.util
import signal
import sys
from concurrent.futures import Future
from dataclasses import replace

import pandas as pd
import pytest
from harness import YAML, furnish, kbench, rows, start, wait_for, workers

from kbench.errors import ConfigError
from kbench.run.execution import cluster
from kbench.run.execution.runner import obtain_in
from kbench.run.execution.sandbox import Sandbox
from kbench.run.execution.worker import work
from kbench.settings import Settings

SAME = ["key", "status", "n_train", "n_test", "accuracy", "f1", "threads", "environment", "params"]


def engine(name, module):
    absent = importlib.util.find_spec(module) is None
    reason = f"{module} is not installed: pip install 'kbench[{name}]'"
    return pytest.param(name, marks=pytest.mark.skipif(absent, reason=reason))


DASK, RAY, SLURM = (
    engine("dask", "distributed"),
    engine("ray", "ray"),
    engine("slurm", "submitit"),
)
LOCAL = {"slurm": ["parallel.options={cluster: local}", "parallel.jobs=2"]}


@pytest.fixture
def here(tmp_path):
    furnish(tmp_path)
    text = YAML.format(name="takes_its_host", cls="Naughty", how="takes_its_host_along")
    (tmp_path / "configs/method/takes_its_host.yaml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("backend", [DASK, RAY, SLURM])
def test_a_cluster_writes_the_rows_that_this_machine_writes(here, backend):
    sweep = ["-m", "method=svc,knn,is_killed", "dataset=digits", "seed=0,1"]
    kbench(here, *sweep, "results_dir=alone", check=1)
    kbench(here, *sweep, f"parallel={backend}", *LOCAL.get(backend, []), check=1)
    alone, together = (
        pd.read_parquet(here / folder)[SAME].sort_values("key", ignore_index=True)
        for folder in ("alone", "results")
    )
    pd.testing.assert_frame_equal(alone, together)
    assert set(rows(here)["jobs"]) == {2}
    again = kbench(here, *sweep, f"parallel={backend}", *LOCAL.get(backend, []), check=1)
    assert "nothing to do" in again.stdout


@pytest.mark.parametrize("backend", [DASK])
@pytest.mark.parametrize(("deaths", "status"), [(1, "ok"), (9, "crashed")])
def test_a_run_whose_host_dies_is_started_once_more(here, backend, deaths, status):
    marker = here / "attempts"
    command = ["method=takes_its_host", f"method.marker={marker}", f"method.value={deaths}"]
    kbench(here, *command, f"parallel={backend}", check=int(status != "ok"))
    assert len(marker.read_text()) == cluster.ATTEMPTS
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


class Engine:
    """Has workers until `left` is set to 0, and never ends a call."""

    left = 1

    def submit(self, function, *args):
        return Future()

    def workers(self):
        if self.left < 0:
            raise OSError("the scheduler is gone")
        return self.left

    def close(self):
        pass


@pytest.mark.parametrize("left", [0, -1])
def test_a_cluster_without_workers_is_given_up(caplog, left):
    engine = Engine()
    runs = cluster.Cluster(engine, [], lost_s=0.2, poll_s=0.01)
    job = runs.start(None, None, None)
    assert not job.connection.poll(0.5)
    engine.left = left
    outcome = job.news()
    assert (outcome.status, outcome.message) == ("interrupted", "the cluster has no workers")
    assert runs.start(None, None, None).news().status == "interrupted"
    assert "has had no worker for 0.2 s" in caplog.text
    runs.close()


def test_data_that_a_machine_lacks_are_prepared_there(tmp_path, monkeypatch):
    """A task names the runner's prepared folder; without it the config and the checksum decide."""
    from kbench.config import composer
    from kbench.run.planning.plan import make_plan

    monkeypatch.chdir(tmp_path)
    sandbox = Sandbox()
    with composer() as hydra:
        plan = make_plan(hydra, ["method=dummy", "dataset=digits"], obtain=obtain_in(sandbox))
    run = plan.runs[0]
    task = plan.task(run)
    elsewhere = replace(task, prepared="/nowhere", datasets_dir=str(tmp_path / "other"))
    prepared = cluster._prepared_here(elsewhere, run.limits, sandbox)
    assert prepared.is_relative_to(tmp_path / "other")
    other = replace(elsewhere, about=replace(task.about, data_sha256="0000"))
    with pytest.raises(cluster.DataError, match=r"digits is another one on .* should be 0000"):
        cluster._prepared_here(other, run.limits, sandbox)
    lent = replace(elsewhere, model=str(tmp_path / "models" / "model.npz"))
    outcome = cluster.run_guarded((), work, lent, run.limits, 1)
    assert outcome.status == "ok"
    assert "does not share the runner's file system" in outcome.message
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("backend", "module"), [("dask", "distributed"), ("ray", "ray"), ("slurm", "submitit")]
)
def test_a_missing_engine_is_one_line(monkeypatch, backend, module):
    monkeypatch.setitem(sys.modules, module, None)
    settings = Settings()
    settings.parallel.backend = backend
    with (
        pytest.raises(
            ConfigError, match=rf"needs the package {module}: pip install 'kbench\[{backend}"
        ),
        cluster.open_cluster(settings, []),
    ):
        pass


@pytest.mark.parametrize("backend", [DASK])
def test_a_cluster_that_is_not_there_is_one_line(here, backend):
    done = kbench(here, "method=dummy", f"parallel={backend}", "parallel.address=tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "parallel.address=tcp://127.0.0.1:9" in done.stderr.splitlines()[-1]
