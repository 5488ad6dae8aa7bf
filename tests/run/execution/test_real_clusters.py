"""Real clusters on this machine: Dask with kills at every process and moment, SLURM of one node."""

import contextlib
import importlib.util
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from harness import YAML, environment, furnish, kbench, rows, start, wait_for

from kbench.run.execution.engines import states
from kbench.run.results.rows import IDENTITY

pytestmark = pytest.mark.timeout(600)

SLURM = Path(__file__).parents[3] / "scripts" / "slurm_here.sh"
# Seconds that no command may wait for a cluster that has lost a process.
WITHIN_S = 60.0
SWEEP = ["-m", "method=knn,svc", "dataset=digits", "seed=0,1,2"]


@pytest.fixture
def here(tmp_path):
    return furnish(tmp_path)


def dask(here, *words):
    command = [sys.executable, "-m", "dask", *words, "--no-dashboard", "--host", "127.0.0.1"]
    with (here / "dask.log").open("ab") as log:
        return subprocess.Popen(command, cwd=here, env=environment(), stdout=log, stderr=log)


def kill_tree(process):
    """Kill a process with all that it has started."""
    for each in [*psutil.Process(process.pid).children(recursive=True), process]:
        each.kill()
    process.wait()


class Cluster:
    """A Dask scheduler and two workers, as processes that a test may kill and start again."""

    def __init__(self, here):
        self.here, self.port = here, str(random.randint(20000, 30000))
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self.nannies = None

    def start(self):
        """Start what does not run. A nanny starts the worker that it has lost by itself, but ends
        with one that was killed in its start."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.end()
            self.scheduler = dask(self.here, "scheduler", "--port", self.port)
        if self.nannies is None or self.nannies.poll() is not None:
            self.nannies = dask(
                self.here, "worker", self.address, "--nthreads", "1", "--nworkers", "2"
            )

    def workers(self):
        """The processes that train, below those of the nannies."""
        found = []
        if self.nannies.poll() is None:
            for process in psutil.Process(self.nannies.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if "spawn_main" in " ".join(process.cmdline()):
                        found.append(process)
        return found

    def end(self):
        for process in (self.nannies, self.scheduler):
            if process is not None and process.poll() is None:
                kill_tree(process)


@pytest.fixture
def cluster(here):
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("distributed is not installed: pip install 'kbench[dask]'")
    cluster = Cluster(here)
    cluster.start()
    yield cluster
    cluster.end()


def every_run_once(here, seeds):
    """Every run of the sweep has exactly one row that is ok, and no attempt has two rows."""
    all_rows = rows(here)
    ok = all_rows.query("status == 'ok'")
    return (
        not all_rows.duplicated(list(IDENTITY)).any()
        and not ok.duplicated(["method", "seed"]).any()
        and len(ok) == 2 * seeds
    )


# Kills of each process in each of two tests: with those of Ray and SLURM below, more than fifty.
KILLS = {"worker": 15, "client": 8, "scheduler": 2}


@pytest.mark.parametrize("seed", [0, 1])
def test_kills_on_a_real_dask_lose_no_row(here, cluster, seed):
    """Kills at any moment, in start, warm-up, runs and writing, one after the other.

    A command whose cluster was killed ends in time, by one line; the same command goes on, and
    every new command has more seeds.
    """
    draw = random.Random(seed)
    victims = [each for each, times in KILLS.items() for _ in range(times)]
    draw.shuffle(victims)
    seeds, running = 0, None
    for victim in victims:
        cluster.start()
        if running is None:
            seeds += 3
            running = start(here, *sweep_on(cluster, seeds))
        time.sleep(draw.uniform(0.0, 3.0))
        if victim == "client":
            running.kill()
        elif victim == "scheduler":
            cluster.scheduler.kill()
        else:
            wait_for(lambda: cluster.nannies.poll() is not None or cluster.workers())
            workers = cluster.workers()
            if workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    draw.choice(workers).kill()
        if victim != "worker" or running.poll() is not None:
            _, errors = running.communicate(timeout=WITHIN_S)
            # What a killed command had started may complain that it is gone.
            assert victim == "client" or "Traceback" not in errors, errors
            running = None
    cluster.start()
    if running is not None:
        running.communicate(
            timeout=2 * WITHIN_S
        )  # nothing is lost any more: it completes the sweep
    kbench(here, *sweep_on(cluster, seeds), check=0)
    assert every_run_once(here, seeds)


def sweep_on(cluster, seeds):
    words = ["-m", "method=knn,svc", "dataset=digits", f"seed=range(0,{seeds})", "rerun=failed"]
    return [*words, "parallel=dask", "parallel.jobs=2", f"parallel.address={cluster.address}"]


def test_a_run_that_kills_its_workers_is_begun_twice(here, cluster):
    """A scheduler of Dask would give it to four workers, and kbench would submit it once more."""
    text = YAML.format(name="host", cls="Naughty", how="takes_its_host_along")
    (here / "configs/method/host.yaml").write_text(text)
    marker = here / "attempts"
    words = ["method=host", f"method.marker={marker}", "method.value=99", "parallel=dask"]
    kbench(here, *words, f"parallel.address={cluster.address}", check=1)
    assert len(marker.read_text()) == states.ATTEMPTS
    assert "was lost 2 times" in rows(here)["message"].iloc[0]


def test_runs_that_waited_for_lost_workers_get_no_row(here, cluster):
    """Two runs had begun when both workers were lost, and three waited for them."""
    words = ["-m", "method=hangs", f"method.marker={here}/started", "seed=0,1,2,3,4"]
    words += ["parallel=dask", "parallel.jobs=5", f"parallel.address={cluster.address}"]
    running = start(here, *words)
    wait_for(lambda: len(list(here.glob("started-*"))) == 2)
    kill_tree(cluster.nannies)
    _, errors = running.communicate(timeout=WITHIN_S)
    assert running.returncode == 2
    assert errors.count("has had no worker for 30 s") == 1
    assert list(rows(here)["status"]) == ["interrupted"] * 2


def test_a_lost_ray_head_interrupts_its_runs(here):
    """Ray would end the process of its driver, so that no row were written."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed: pip install 'kbench[ray]'")
    running = start(here, "method=hangs", f"method.marker={here}/started", "parallel=ray")
    wait_for(lambda: list(here.glob("started-*")))
    (head,) = (
        process
        for process in psutil.Process(running.pid).children(recursive=True)
        if process.name().startswith("gcs_server")
    )
    head.kill()
    _, errors = running.communicate(timeout=WITHIN_S)
    assert "Traceback" not in errors
    assert errors.count("its runs are interrupted; start the same command again to go on") == 1
    assert list(rows(here)["status"]) == ["interrupted"]


@pytest.fixture(scope="module")
def real_slurm():
    if shutil.which("sbatch") is None or subprocess.run(["sinfo"], capture_output=True).returncode:
        pytest.skip(f"no SLURM runs on this machine: {SLURM} start")


def jobs():
    done = subprocess.run(["squeue", "-h", "-r", "-o", "%i %T %j"], capture_output=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [
        job_id for job_id, state, name in lines if name.startswith("kbench-") and state == "RUNNING"
    ]


def hangs(here, seeds):
    return [
        "-m",
        "method=hangs",
        f"method.marker={here}/started",
        f"seed={seeds}",
        "parallel=slurm",
    ]


def test_a_real_slurm_does_a_sweep_and_leaves_no_file(here, real_slurm):
    kbench(here, *SWEEP, "parallel=slurm", "parallel.options.mem_gb=1", check=0)
    assert every_run_once(here, 3)
    assert not (here / "results" / "_slurm").exists()


def test_ctrl_c_and_scancel_on_a_real_slurm(here, real_slurm):
    running = start(here, *hangs(here, "0"))
    wait_for(lambda: list(here.glob("started-*")))
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=WITHIN_S)
    assert list(rows(here)["status"]) == ["interrupted"]
    running = start(here, *hangs(here, "1"))
    wait_for(lambda: len(list(here.glob("started-*"))) == 2)
    subprocess.run(["scancel", *jobs()], check=True)
    running.communicate(timeout=WITHIN_S)
    row = rows(here).query("seed == 1").iloc[0]
    assert row["status"] == "crashed"
    assert "cancelled by SLURM, job" in row["message"]


def test_a_time_limit_of_a_real_slurm(here, real_slurm):
    running = start(here, *hangs(here, "0"), "parallel.options.timeout_min=1")
    running.communicate(timeout=150)
    row = rows(here).iloc[0]
    assert row["status"] == "timeout"
    assert "parallel.options.timeout_min=1: job" in row["message"]


def test_a_refused_job_of_a_real_slurm_is_one_line(here, real_slurm):
    done = kbench(here, *SWEEP, "parallel=slurm", "+parallel.options.slurm_partition=nope", check=2)
    assert done.stderr.splitlines()[-1].startswith("kbench: sbatch: error: ")


def test_a_killed_client_of_a_real_slurm_is_taken_over(here, real_slurm):
    words = [*SWEEP, "parallel=slurm"]
    running = start(here, *words)
    wait_for(lambda: list((here / "results").glob("_slurm/*/job-*")))
    kill_tree(running)
    running.communicate()
    done = kbench(here, *words, check=0)
    assert "taken over from a command that was killed" in done.stderr
    assert every_run_once(here, 3)
    assert len(rows(here)) == 6
