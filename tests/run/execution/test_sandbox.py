"""Whatever a method does, the guard reports the right status and leaves nothing running."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from dataclasses import replace
from pathlib import Path

import misbehaviour
import numpy as np
import psutil
import pytest
from harness import python, wait_for

from kbench.errors import KbenchError
from kbench.run.execution.guard import HEAD_BYTES, STOPPED_FOR, TAIL_BYTES
from kbench.run.execution.sandbox import Sandbox
from kbench.run.results.stopped import least_fit_s, stopped_at, stopped_where
from kbench.settings import Limits

NONE = Limits(wall_s=None, setup_s=60.0)
linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory of a tree is only bounded on Linux"
)


@pytest.fixture(scope="module")
def sandbox():
    return Sandbox(["numpy", "misbehaviour"])


def outcome(sandbox, work, limits=None, **task):
    n_runs = len(task.get("path", [task]))
    return sandbox.start(work, task, replace(NONE, **(limits or {})), n_runs).outcome()


def marked(marker):
    """Processes that `misbehaviour._mark` started for this marker."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(marker in word for word in process.info["cmdline"] or ())
    ]


def wait_until_gone(marker, within):
    wait_for(lambda: not marked(marker), within)


def test_a_good_run_returns_its_result_and_its_output(sandbox):
    done = outcome(sandbox, misbehaviour.well, answer=42)
    assert (done.status, done.result["row"]["answer"]) == ("ok", 42)
    assert "some words" in done.log


def test_a_result_larger_than_a_pipe_arrives_whole(sandbox):
    done = outcome(sandbox, misbehaviour.large_result)
    assert done.result["row"]["values"] == list(range(200_000))


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (misbehaviour.exits, "exited with code 3"),
        (misbehaviour.kills_itself, "SIGKILL"),
        (misbehaviour.segfaults, "SIGSEGV"),
        (misbehaviour.raises, "exited with code 1"),
    ],
)
def test_death_without_a_report_is_crashed(sandbox, work, message):
    done = outcome(sandbox, work)
    assert done.status == "crashed"
    assert message in done.message
    assert ("ValueError: no luck" in done.log) == (work is misbehaviour.raises)


@pytest.mark.parametrize(
    ("work", "limits", "named"),
    [
        (misbehaviour.hangs, {"wall_s": 0.2}, "limits.wall_s=0.2"),
        (misbehaviour.ignores_signals_and_spins, {"wall_s": 0.2}, "limits.wall_s=0.2"),
        (misbehaviour.ignores_signals_and_spins, {"cpu_s": 0.2}, "limits.cpu_s=0.2"),
        (misbehaviour.hangs_before_start, {"setup_s": 0.2}, "not set up within limits.setup_s=0.2"),
    ],
)
def test_time_limits(sandbox, work, limits, named):
    done = outcome(sandbox, work, limits)
    assert done.status == "timeout"
    assert named in done.message


@pytest.mark.parametrize(
    ("work", "told", "stage", "seconds"),
    [
        (misbehaviour.predicts_slowly, {}, "predict", 7.2),
        (misbehaviour.fits_slowly, {"fit_cpu_s": 0.15}, "fit", 0.1),
        (misbehaviour.fits_slowly, {}, "fit", 0.2),  # as the guard has counted them
    ],
)
def test_a_stopped_run_says_in_which_stage_and_after_how_many_cpu_seconds_of_its_fit(
    sandbox, work, told, stage, seconds
):
    done = outcome(sandbox, work, {"wall_s": 1.0}, told=told)
    at_least = bool(told)
    assert (
        done.message
        == f"not done within limits.wall_s=1{stopped_where(stage, seconds, at_least=at_least)}"
    )
    row = {"message": done.message, "threads": 1}
    assert (stopped_at(row), least_fit_s(row)) == (1.0, seconds)


def test_compiling_counts_against_no_limit(sandbox):
    limits = {"setup_s": 1.0, "wall_s": 1.0, "cpu_s": 1.0}
    assert outcome(sandbox, misbehaviour.compiles_longer_than_every_limit, limits).status == "ok"


def test_sleeping_is_no_cpu_time(sandbox):
    done = outcome(sandbox, misbehaviour.hangs, {"wall_s": 0.5, "cpu_s": 0.3})
    assert "wall_s" in done.message


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        (["a", "b", "c"], ["ok", "ok", "ok"]),
        (["a", "fails", "c"], ["ok", "error", "ok"]),
        (["a", "b", "fails"], ["ok", "ok", "error"]),
        (["a", "dies", "c"], ["ok", "crashed"]),
        (["a", "b", "hangs", "d"], ["ok", "ok", "timeout"]),
        (["hangs", "b"], ["timeout"]),
    ],
)
def test_each_run_of_a_path_has_its_outcome_and_its_own_limits(sandbox, path, statuses):
    last = outcome(sandbox, misbehaviour.walks, {"wall_s": 0.6}, path=path)
    assert [done.status for done in last.all] == statuses
    reported = [done for done in last.all if done.result]
    assert [done.result["row"]["step"] for done in reported] == path[: len(reported)]


@linux_only
@pytest.mark.parametrize(
    "work",
    [
        misbehaviour.eats_with_numpy,
        misbehaviour.eats_at_once,
        misbehaviour.eats_with_numba,
        misbehaviour.eats_with_libsvm,
        misbehaviour.eats_in_a_loky_child,
    ],
)
def test_memory_limit(sandbox, work):
    limit = 600 if work is misbehaviour.eats_with_libsvm else 300
    done = outcome(sandbox, _with_memory_error, {"memory_mb": limit, "wall_s": 120}, call=work)
    assert done.status == "memory", (done.message, done.log)
    # Each process has a limit of its own; between two looks at the tree they may add up.
    processes = 2 if work is misbehaviour.eats_in_a_loky_child else 1
    assert done.peak_bytes < 2 * processes * limit * 2**20


def _with_memory_error(task, send):
    """What the real worker does with a MemoryError that Python sees."""
    try:
        task["call"](task, send)
    except MemoryError:
        send({"event": "result", "status": "memory", "message": "MemoryError"})


@linux_only
def test_memory_that_is_given_back_is_not_held_against_a_run(sandbox):
    done = outcome(sandbox, misbehaviour.frees_in_time, {"memory_mb": 60})
    assert done.status == "ok", done.message


def test_output_is_kept_in_bounded_size_with_both_ends(sandbox):
    log = outcome(sandbox, misbehaviour.prints_megabytes).log
    assert log.startswith("the very first line")
    assert log.endswith("the very last line\n")
    assert "bytes left out" in log
    assert len(log) <= HEAD_BYTES + 2 * TAIL_BYTES + 100


@linux_only
@pytest.mark.parametrize("work", [misbehaviour.leaves_children, misbehaviour.hangs_with_children])
def test_nothing_is_left_running(sandbox, work):
    marker = f"kbench-{uuid.uuid4().hex}"
    done = outcome(sandbox, work, {"wall_s": 0.5}, marker=marker)
    assert done.status == ("ok" if work is misbehaviour.leaves_children else "timeout")
    wait_until_gone(marker, 0.5)


@linux_only
def test_interrupting_ends_the_tree(sandbox):
    marker = f"kbench-{uuid.uuid4().hex}"
    job = sandbox.start(misbehaviour.hangs_with_children, {"marker": marker}, NONE)
    wait_for(lambda: marked(marker))
    job.interrupt()
    assert job.outcome().status == "interrupted"
    wait_until_gone(marker, 0.5)


@linux_only
def test_limits_hold_while_the_runner_is_suspended(sandbox):
    """A runner that does not read what its guards report, as after Ctrl-Z, makes no guard wait."""
    marker = f"kbench-{uuid.uuid4().hex}"
    work, task = misbehaviour.reports_much_progress, {"marker": marker}
    job = sandbox.start(work, task, replace(NONE, wall_s=15.0))
    wait_for(lambda: marked(marker))
    wait_until_gone(marker, 25.0)
    assert job.outcome().status == "timeout"


@linux_only
@pytest.mark.parametrize("seconds", [3.0, 9.0])
def test_a_stop_of_all_processes_of_a_run_counts_against_no_limit(sandbox, seconds):
    """SLURM suspends a job, or a container is paused, for seven seconds."""
    job = sandbox.start(misbehaviour.takes_a_moment, {"seconds": seconds}, replace(NONE, wall_s=6))
    guard = psutil.Process(job._process.pid)
    wait_for(guard.children)
    processes = [guard, *guard.children()]
    time.sleep(1.0)
    for process in processes:
        process.suspend()
    time.sleep(7.0)
    for process in processes:
        process.resume()
    done = job.outcome()
    assert done.status == "ok"
    assert re.fullmatch(rf"{STOPPED_FOR} [78] s, which its wall times include", done.message)


def test_an_interruption_at_the_last_moment_loses_no_outcome(sandbox):
    found = set()
    # On a machine that is busy a worker needs longer to begin.
    for delay in [*np.linspace(0.0, 0.15, 30), 0.5, 2.0, 10.0]:
        if delay > 0.15 and "ok" in found:
            break
        job = sandbox.start(misbehaviour.takes_a_moment, {"seconds": 0.03}, NONE)
        time.sleep(delay)
        for _ in range(5):
            job.interrupt()
        found.add(job.outcome().status)
    assert found == {"ok", "interrupted"}


@linux_only
def test_a_killed_guard_is_crashed_and_takes_its_worker_along(sandbox):
    job = sandbox.start(misbehaviour.hangs, {}, NONE)
    guard = psutil.Process(job._process.pid)
    wait_for(guard.children)
    (worker,) = guard.children()
    guard.send_signal(signal.SIGKILL)
    assert job.outcome().status == "crashed"
    psutil.wait_procs([worker], timeout=5)
    assert not worker.is_running()


@linux_only
def test_a_killed_runner_takes_everything_along():
    marker = f"kbench-{uuid.uuid4().hex}"
    script = f"""
        import os, sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import misbehaviour
        from kbench.settings import Limits
        from kbench.run.execution.sandbox import Sandbox
        none = {NONE!r}
        sandbox = Sandbox(["misbehaviour"])
        task = {{"marker": os.environ["MARKER"]}}
        jobs = [sandbox.start(misbehaviour.hangs_with_children, task, none)]
        time.sleep(600)
    """
    # A command line of the runner with the marker would be that of its forks for a moment, too.
    command = [sys.executable, "-c", textwrap.dedent(script)]
    runner = subprocess.Popen(command, env={**os.environ, "MARKER": marker})
    try:
        wait_for(lambda: marked(marker), within=30.0)  # the method's child
    finally:
        runner.kill()
        runner.wait()
    wait_until_gone(marker, 5.0)


@linux_only
@pytest.mark.parametrize("threads", [1, 2])
def test_threads_and_affinity(sandbox, threads):
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    if len(cpus) < threads:
        pytest.skip("this machine has one CPU")
    done = outcome(sandbox, misbehaviour.threads, threads=threads, cpus=cpus)
    assert set(done.result["row"]["pools"]) == {threads}
    assert done.result["row"]["cpus"] == cpus


def _environment(task, send):
    result = {"event": "result", "status": "ok", "message": ""}
    send(result | {"row": {name: os.environ.get(name) for name in task}})


def test_a_killed_fork_server_is_started_anew_in_the_same_environment():
    sandbox = Sandbox(environment={"KBENCH_OF_THE_SERVER": "kept"})
    names = ["KBENCH_OF_THE_SERVER"]
    end_fork_servers()
    for _ in range(2):
        outcome = sandbox.call(_environment, names, NONE)
        assert outcome.result["row"] == {"KBENCH_OF_THE_SERVER": "kept"}
        assert end_fork_servers() == 1


def test_a_fork_server_that_always_ends_is_one_line(tmp_path):
    (tmp_path / "ends_its_process.py").write_text("import os; os._exit(1)")
    sandbox = Sandbox(["ends_its_process"], environment={"PYTHONPATH": str(tmp_path)})
    end_fork_servers()
    with pytest.raises(KbenchError, match="the fork server ended 5 times"):
        sandbox.call(_environment, [], NONE)


@linux_only
def test_a_folder_of_temporary_files_that_is_removed_is_named(tmp_path):
    """Cleaners of /tmp remove what is old, also the socket of a fork server."""
    script = """
        import shutil
        from kbench.run.execution.sandbox import Sandbox
        from kbench.run.execution.temporary import runner_folder
        from kbench.settings import Limits
        sandbox = Sandbox()
        sandbox.call(print, {}, Limits())
        shutil.rmtree(runner_folder())
        sandbox.call(print, {}, Limits())
    """
    last = python("-c", textwrap.dedent(script)).stderr.strip().splitlines()[-1]
    assert re.search(r"no worker can be started: the folder .*/kbench-\S+ was removed", last), last
    assert "start the same command again" in last


@pytest.mark.parametrize("how", [["script_of_a_user.py"], ["-m", "script_of_a_user"]])
def test_no_run_executes_the_script_of_the_command_again(tmp_path, how):
    """Also a script without `if __name__ == "__main__"`, which multiprocessing would refuse."""
    script = """
        import misbehaviour
        from kbench.run.execution.sandbox import Sandbox
        from kbench.settings import Limits
        print("the script runs", flush=True)
        for _ in range(2):
            outcome = Sandbox().call(misbehaviour.well, {"answer": 42}, Limits())
            print(outcome.status)
    """
    (tmp_path / "script_of_a_user.py").write_text(textwrap.dedent(script))
    path = os.pathsep.join([str(tmp_path), str(Path(misbehaviour.__file__).parent)])
    printed = python(*how, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path})
    assert printed.stderr == ""
    assert printed.stdout.split("\n") == ["the script runs", "ok", "ok", ""]


def is_fork_server(process):
    try:
        return "forkserver" in " ".join(process.cmdline())
    except psutil.ZombieProcess:  # ended, and not yet reaped by multiprocessing
        return False


def end_fork_servers():
    """Kill the fork server of this process; the number of processes killed."""
    found = [process for process in psutil.Process().children() if is_fork_server(process)]
    for process in found:
        process.kill()
    for process in found:  # not reaped here, because multiprocessing does that
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    return len(found)
