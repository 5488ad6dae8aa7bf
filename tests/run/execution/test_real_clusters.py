"""Real clusters on this machine: Dask with kills at every process and moment, SLURM of one node."""

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
from harness import furnish, kbench, rows, start, wait_for

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
        return subprocess.Popen(command, cwd=here, stdout=log, stderr=log)


def kill_tree(process):
    """Kill a process with all that it has started."""
    for each in [*psutil.Process(process.pid).children(recursive=True), process]:
        each.kill()
    process.wait()


@pytest.fixture
def scheduler(here):
    """Address of a Dask scheduler with two workers, by processes that a test may kill."""
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("distributed is not installed: pip install 'kbench[dask]'")
    port = str(random.randint(20000, 30000))
    address = f"tcp://127.0.0.1:{port}"
    started = {
        "scheduler": dask(here, "scheduler", "--port", port),
        "worker": dask(here, "worker", address, "--nthreads", "1", "--nworkers", "2"),
    }
    time.sleep(3)
    yield address, started
    for process in started.values():
        for child in (
            psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ()
        ):
            child.kill()
        process.kill()
        process.wait()


def whole(here):
    """Every run of the sweep has exactly one row that is ok."""
    ok = rows(here).query("status == 'ok'")
    return sorted(zip(ok["method"], ok["seed"], strict=True)) == [
        (method, seed) for method in ("knn", "svc") for seed in (0, 1, 2)
    ]


VICTIMS = ["scheduler", "worker", "client"]


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("moment", [0.5, 2.0, 4.0])
def test_kills_on_a_real_dask_lose_no_row(here, scheduler, victim, moment):
    """After any kill the command ends in time, and the same command completes the sweep."""
    address, started = scheduler
    words = [*SWEEP, "parallel=dask", "parallel.jobs=2"]
    running = start(here, *words, f"parallel.address={address}")
    wait_for(lambda: (here / "results" / "_claims").exists())
    time.sleep(moment)
    if victim == "client":
        running.kill()
    elif victim == "worker":
        workers = psutil.Process(started["worker"].pid).children(recursive=True)
        workers[-1].kill()
    else:
        started["scheduler"].kill()
    _, errors = running.communicate(timeout=WITHIN_S)
    assert "Traceback" not in errors
    kbench(here, *words, "rerun=failed", check=0)
    assert whole(here)


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
    assert errors.count("its runs are interrupted; the same command goes on") == 1
    assert list(rows(here)["status"]) == ["interrupted"]


@pytest.fixture
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
    assert whole(here)
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
    assert whole(here)
    assert len(rows(here)) == 6
