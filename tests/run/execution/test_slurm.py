"""SLURM as an engine, with fake commands: refusals, limits, states from any source, orphans."""

import multiprocessing
import os
import queue
import shutil
from dataclasses import replace

import pytest
from fake_slurm import FakeSlurm
from harness import a_task

from kbench.errors import ConfigError
from kbench.run.execution import temporary
from kbench.run.execution.engines import slurm, slurm_job, states
from kbench.run.execution.engines.on_node import Call, Proof
from kbench.run.execution.engines.states import (
    REFUSED,
    ClusterLostError,
    EngineReport,
    RemoteJob,
    Stage,
)
from kbench.run.execution.guard import RunOutcome
from kbench.settings import Limits, Settings

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'kbench[slurm]'")


def call(k):
    task = a_task(key=f"{k:032x}", seed=k, params={"k": k})
    return Call((), None, task, Limits(), 1, Proof("name"), 64.0)


class Sweep:
    """Runs of a `Slurm` engine without a runner; what it says and the outcomes are kept."""

    def __init__(self, results, **options):
        self.settings = Settings(results_dir=str(results))
        self.settings.parallel = replace(self.settings.parallel, backend="slurm", jobs=8, **options)
        self.said, self.jobs, self.ended, self.stopped = [], {}, {}, False
        self.engine = slurm.Slurm(self.settings, self.said.append)
        self.engine._executor._executor._throttling = 0.0

    def start(self, n):
        """Submit runs, and look at them once."""
        for k in range(n):
            self.jobs[k] = RemoteJob(call(k), None)
            self.submit(k)
        self.step()
        return self

    def submit(self, k):
        self.jobs[k].submitted()
        self.engine.submit(k, self.jobs[k].call)

    def step(self, n=1):
        for _ in range(n):
            self.engine._polled = self.engine._ask_at = 0.0
            for k, report in self.engine.reports():
                if k not in self.ended and self.jobs[k].take(report, stopped=self.stopped):
                    self.submit(k)
                elif self.jobs[k].outcome is not None:
                    self.ended[k] = self.jobs[k].outcome

    def job(self, job_id, monkeypatch, **terms):
        """Play a job; its runs end well."""
        monkeypatch.setattr(slurm_job, "run_guarded", lambda call, stopped: RunOutcome("ok"))
        monkeypatch.setattr(slurm_job, "_LINGER_S", 0.01)
        job = slurm_job._Job(self.engine._sweep, replace(self.engine._terms, **terms), job_id)
        job.do_runs(signals=False)

    def begins(self, job_id):
        """A job that has taken a run, and not ended it."""
        own = self.engine._sweep / f"job-{job_id}"
        own.mkdir()
        (own / "alive").write_text("node7")
        name = slurm.names(self.engine._sweep / "todo")[0]
        (self.engine._sweep / "todo" / name).rename(own / name)

    def status(self):
        return {k: (outcome.status, outcome.message) for k, outcome in sorted(self.ended.items())}


@pytest.fixture
def fake(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "_LATE_S", 0.0)
    return FakeSlurm(tmp_path / "bin", monkeypatch)


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def test_jobs_are_one_array_and_take_several_runs(fake, results, monkeypatch):
    sweep = Sweep(results).start(20)
    assert fake.asked() == [8]
    sweep.job("1_0", monkeypatch)
    sweep.step()
    assert sweep.status() == dict.fromkeys(range(20), ("ok", ""))
    sweep.engine.close()
    assert not (results / "_slurm").exists()
    assert fake.asked() == [8]


@pytest.mark.parametrize(
    ("options", "terms", "done"),
    [
        ({"runs_per_job": 1}, {}, 1),
        ({"runs_per_job": 3}, {}, 3),
        ({}, {"timeout_min": 60.0, "needed_s": 3600.0}, 1),  # the next would not end in time
    ],
)
def test_a_job_does_as_many_runs_as_it_may(fake, results, monkeypatch, options, terms, done):
    sweep = Sweep(results, **options).start(5)
    sweep.job("1_0", monkeypatch, **terms)
    sweep.step()
    assert len(sweep.ended) == done


@pytest.mark.parametrize(("limit", "asked"), [(3, [8, 4, 2]), (1, [8, 4, 2, 1])])
def test_the_depth_of_the_queue_is_found(fake, results, monkeypatch, limit, asked):
    fake.tell("limit", str(limit))
    sweep = Sweep(results).start(20)
    assert fake.asked() == asked
    assert "AssocMaxSubmitJobLimit" in sweep.said[0]
    sweep.job(fake.jobs()[0], monkeypatch)
    sweep.step()
    assert len(sweep.ended) == 20


def test_a_limit_without_jobs_of_ours_is_waited_for_and_said(fake, results):
    fake.tell("limit", "0")
    sweep = Sweep(results).start(2)
    sweep.step(2)
    assert not sweep.ended
    assert sweep.engine.waits_for().startswith("SLURM, which takes no job")


REFUSALS = [
    "sbatch: error: invalid partition specified: nope",
    "sbatch: error: Batch job submission failed: Memory required by task is not available",
    "sbatch: unrecognized option '--nope'",
    "sbatch: error: Batch job submission failed: Unable to contact slurm controller",
    "sbatch: error: QOSMaxWallDurationPerJobLimit; sbatch: error: Job violates (job submit limit)",
]


@pytest.mark.parametrize("words", REFUSALS)
def test_a_refusal_ends_the_runs_with_the_words_of_sbatch(fake, results, words):
    fake.tell("refuses", words)
    sweep = Sweep(results).start(3)
    assert sweep.status() == dict.fromkeys(range(3), (REFUSED, words))


def test_rows_of_jobs_that_were_taken_are_kept_when_others_are_refused(fake, results, monkeypatch):
    fake.tell("limit", "1")
    sweep = Sweep(results, runs_per_job=1).start(3)
    sweep.job("1", monkeypatch)
    fake.becomes("1", "COMPLETED")
    fake.tell("refuses", REFUSALS[0])
    sweep.step()
    assert sorted(status for status, _ in sweep.status().values()) == ["ok", REFUSED, REFUSED]


SOURCES = {"squeue": ["no_accounting"], "sacct": ["forgets"]}
ENDS = [
    ("TIMEOUT", "timeout", "parallel.options.timeout_min=69: job 1 on node7"),
    ("OUT_OF_MEMORY", "memory", "parallel.options.mem_gb=8"),
    ("CANCELLED by 0", "crashed", "cancelled by SLURM, job 1 on node7"),
    ("FAILED", None, ""),
    ("NODE_FAIL", None, ""),
    ("PREEMPTED", None, ""),
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("state", "status", "message"), ENDS)
def test_a_job_that_ends_without_a_report(fake, results, source, state, status, message):
    """A limit that would end the run again is named; anything else is tried once more."""
    for name in SOURCES[source]:
        fake.tell(name)
    sweep = Sweep(results).start(1)
    sweep.begins("1")
    fake.becomes("1", state)
    sweep.step()
    if status is not None:
        assert sweep.ended[0].status == status
        assert message in sweep.ended[0].message
        assert fake.asked() == [1]
        return
    assert not sweep.ended
    assert fake.asked() == [1, 1]
    sweep.begins("2")
    fake.becomes("2", state)
    sweep.step()
    assert sweep.ended[0].status == "crashed"
    assert f"lost 2 times (job 2 on node7 ended ({state})" in sweep.ended[0].message


def test_accounting_that_is_late_keeps_no_job_alive(fake, results):
    sweep = Sweep(results).start(1)
    sweep.begins("1")
    fake.tell("late", "1|RUNNING|node7\n")
    fake.tell("forgets")
    fake.becomes("1", "FAILED")
    sweep.step()
    sweep.engine._jobs["1"].heard -= slurm._SILENT_S
    sweep.step(2)
    assert list(sweep.engine._jobs) == ["2"]


def test_what_jobs_wait_for_is_said_in_the_words_of_slurm(fake, results):
    sweep = Sweep(results).start(1)
    fake.becomes("1", "PENDING", "|PartitionDown")
    sweep.step()
    assert sweep.engine.waits_for() == "1 job in SLURM's queue (pending PartitionDown)"


@pytest.mark.parametrize(
    ("state", "silent_s", "words"),
    [
        ("RUNNING", 0, None),
        ("RUNNING", 60, "1 job in SLURM's queue (running on node7, without a heartbeat for 60 s)"),
        ("SUSPENDED", 0, "1 job in SLURM's queue (suspended)"),
        ("REQUEUE_HOLD", 60, "1 job in SLURM's queue (requeue_hold)"),
    ],
)
def test_a_job_that_has_begun_and_does_nothing_is_said(fake, results, state, silent_s, words):
    sweep = Sweep(results).start(1)
    sweep.begins("1")
    fake.becomes("1", state, "node7|None")
    sweep.step()
    sweep.engine._jobs["1"].beat_at -= silent_s
    assert sweep.engine.waits_for() == words


def test_a_job_that_sbatch_does_not_admit_is_watched(fake, results, monkeypatch):
    """sbatch fails if the controller answers late, but the job is in the queue and does a run."""
    sweep = Sweep(results, runs_per_job=1).start(2)
    fake.becomes("1_1", "CANCELLED")
    fake.tell("late_controller")
    sweep.step()
    assert sorted(sweep.engine._jobs) == ["1_0"]
    sweep.job("1_0", monkeypatch)
    fake.becomes("1_0", "COMPLETED")
    sweep.begins("2")
    fake.becomes("2", "NODE_FAIL")
    (fake.folder / "late_controller").unlink()
    sweep.step(2)
    sweep.job("3", monkeypatch)
    sweep.step()
    assert sweep.status() == dict.fromkeys(range(2), ("ok", ""))


def test_a_list_of_jobs_that_is_older_than_a_job_does_not_end_it(fake, results):
    sweep = Sweep(results).start(1)
    fake.tell("no_accounting")
    fake.tell("forgets")
    states = (fake.folder / "states").read_text()
    fake.tell("states", "")
    sweep.step(2)
    fake.tell("states", states)
    sweep.step()
    assert fake.asked() == [1]
    assert sweep.engine._jobs["1"].state == "PENDING"
    fake.tell("states", "")
    sweep.engine._jobs["1"].heard -= slurm._SILENT_S + 1
    sweep.step()
    assert fake.asked() == [1, 1]


def test_variables_of_the_shell_that_contradict_the_command_are_dropped(fake, results, monkeypatch):
    typed = {"slurm_partition": "short", "mem_gb": 2}
    dropped = [*(f"{name}X" for name in slurm._QUERIES), "SBATCH_PARTITION"]
    dropped += [f"SBATCH_{name}" for name in slurm._SET_HERE]
    for name in (*dropped, "SBATCH_ACCOUNT", "SLURM_CONF"):
        monkeypatch.setenv(name, "other")
    sweep = Sweep(results, options=typed).start(1)
    sweep.step()
    variables = (fake.folder / "variables").read_text()
    assert {line.partition("=")[0] for line in variables.split()}.isdisjoint(dropped)
    assert variables.count("SBATCH_ACCOUNT=other") == variables.count("SLURM_CONF=other") > 1


@pytest.mark.parametrize("command", slurm._COMMANDS)
def test_a_command_of_slurm_that_is_absent_is_named(fake, results, monkeypatch, command):
    (fake.folder / command).unlink()
    monkeypatch.setenv("PATH", str(fake.folder))
    with pytest.raises(ConfigError, match=f"needs SLURM's command {command}, which is in no"):
        Sweep(results)


def test_a_folder_of_the_sweep_that_is_removed_is_one_line(fake, results):
    sweep = Sweep(results).start(1)
    shutil.rmtree(results)
    with pytest.raises(ClusterLostError, match=r"the folder .*_slurm/\w+ was removed"):
        sweep.step()


def test_without_an_answer_of_slurm_the_heartbeat_tells(fake, results, monkeypatch):
    fake.tell("no_accounting")
    sweep = Sweep(results).start(1)
    sweep.begins("1")
    sweep.step()
    fake.tell("no_controller")
    sweep.engine._jobs["1"].state = "RUNNING"
    sweep.step()
    assert "1" in sweep.engine._jobs
    monkeypatch.setattr(slurm, "_SILENT_S", -1.0)
    sweep.step()
    assert list(sweep.engine._jobs) == ["2"]


@pytest.mark.parametrize(
    ("state", "row"),
    [("PENDING", ("ok", "")), ("CANCELLED", ("crashed", "cancelled by SLURM, job 1 on node7"))],
)
def test_what_slurm_says_of_a_job_that_it_has_ended(fake, results, monkeypatch, state, row):
    """A job gets the same signal when it is cancelled, and when SLURM will start it anew."""
    sweep = Sweep(results).start(1)
    job = slurm_job._Job(sweep.engine._sweep, sweep.engine._terms, "1")

    def run(call, stopped):
        job._cancelled()
        return RunOutcome("interrupted" if stopped() else "ok")

    monkeypatch.setattr(slurm_job, "run_guarded", run)
    job.do_runs(signals=False)
    fake.becomes("1", state)
    sweep.step()
    if state == "PENDING":
        assert not sweep.ended
        sweep.job("1", monkeypatch)
        sweep.step()
    assert sweep.status() == {0: row}
    assert fake.asked() == [1]


def test_a_second_start_that_is_refused_is_a_crash_with_the_words_of_sbatch(fake, results):
    sweep = Sweep(results).start(1)
    sweep.begins("1")
    fake.becomes("1", "FAILED")
    fake.tell("refuses", "sbatch: error: Required partition not available (inactive or drain)")
    sweep.step()
    status, message = sweep.status()[0]
    assert status == "crashed"
    assert "job 1 on node7 ended (FAILED)" in message
    assert "a second start was refused: sbatch: error: Required partition" in message


@pytest.mark.parametrize(
    ("state", "why"), [("FAILED", "python: an error"), ("CANCELLED by 0", "cancelled by SLURM")]
)
def test_jobs_that_end_before_they_begin_a_run_end_the_sweep(fake, results, state, why):
    log = "python: an error\nsrun: error: node7: task 0: Exited with exit code 1"
    sweep = Sweep(results).start(1)
    for k in (1, 2):
        (sweep.engine._sweep / "log" / f"{k}_0_log.err").write_text(log)
        fake.becomes(str(k), state)
        sweep.step()
    assert sweep.ended[0].status == REFUSED
    assert why in sweep.ended[0].message
    sweep.engine.close()
    assert {path.name for path in (results / "_slurm").iterdir()} == {"1_0_log.err", "2_0_log.err"}


def test_an_interrupt_cancels_what_waits_and_reports_what_runs(fake, results):
    sweep = Sweep(results).start(2)
    sweep.begins("1_0")
    sweep.stopped = True
    sweep.engine.stop()
    name = f"--name kbench-{sweep.engine._sweep.name}"
    assert (fake.folder / "cancelled").read_text() == f"{name} --state=PENDING\n"
    assert not slurm.names(sweep.engine._sweep / "todo")
    sweep.step()
    # Of the run that a job does a report may come; the runner waits for it some seconds.
    assert [status for status, _ in sweep.status().values()] == [REFUSED]


def test_a_sweep_of_a_killed_runner_is_taken_over(fake, results, monkeypatch):
    """Results are not computed again, jobs at work are waited for, and the folder is cleaned."""
    killed = Sweep(results, runs_per_job=2).start(5)
    killed.job("1_0", monkeypatch)
    killed.begins("1_1")
    os.close(killed.engine._lock)
    sweep = Sweep(results)
    assert "taken over from a command that was killed: 2 results and jobs" in sweep.said[0]
    sweep.start(5)
    assert len(sweep.ended) == 2
    assert len(slurm.names(sweep.engine._sweep / "todo")) == 2
    assert len(slurm.names(sweep.engine._sweep / "job-1_1")) == 1
    fake.becomes("1_1", "FAILED")
    sweep.job("1_2", monkeypatch)
    sweep.step()
    sweep.job("1_3", monkeypatch)
    sweep.step()
    assert sweep.status() == dict.fromkeys(range(5), ("ok", ""))
    sweep.engine.close()
    assert not (results / "_slurm").exists()


def test_of_a_sweep_that_was_stopped_and_killed_only_results_are_taken_over(
    fake, results, monkeypatch
):
    """After Ctrl-C twice, and if SLURM did not answer, jobs report afterwards that they ended."""
    stopped = Sweep(results, runs_per_job=1).start(3)
    stopped.job("1_0", monkeypatch)
    stopped.begins("1_1")
    stopped.begins("1_2")
    name = slurm.names(stopped.engine._sweep / "job-1_1")[0]
    report = EngineReport(Stage.FINISHED, outcome=RunOutcome("interrupted"))
    slurm_job.put(stopped.engine._sweep / "done" / name, report)
    (stopped.engine._sweep / "job-1_1" / name).unlink()
    stopped.engine.announce_stop()
    os.close(stopped.engine._lock)
    sweep = Sweep(results, runs_per_job=1)
    assert sweep.said[0].endswith("killed: 1 results; jobs of another command are cancelled")
    assert f"--name kbench-{stopped.engine._sweep.name}" in (fake.folder / "cancelled").read_text()
    sweep.start(3)
    assert sweep.status() == {0: ("ok", "")}
    assert len(slurm.names(sweep.engine._sweep / "todo")) == 2


def test_an_engine_that_waits_for_its_library_learns_of_a_stop(fake, results):
    """Jobs then end their runs, although the controller of SLURM does not answer."""
    engine = Sweep(results).engine
    here, there = multiprocessing.Pipe()
    here.send(("stop",))
    here.close()
    orders = queue.SimpleQueue()
    states._listen(there, engine, orders)
    assert [orders.get(), orders.get()] == [("stop",), None]
    assert (engine._sweep / "stop").exists()


def test_two_runners_have_two_folders(fake, results):
    first = Sweep(results)
    (results / "_slurm" / "0").mkdir()  # a job wrote into it after its sweep had ended
    second = Sweep(results)
    assert first.engine._sweep != second.engine._sweep
    assert not second.said
    assert not (results / "_slurm" / "0").exists()


@pytest.mark.parametrize("content", [b"", b"no pickle"])
def test_a_damaged_report_is_a_lost_run(fake, results, monkeypatch, content):
    """A loss of power may leave an empty file; a command and the next one then do the run again."""
    sweep = Sweep(results, runs_per_job=1).start(2)
    damaged = slurm.names(sweep.engine._sweep / "todo")
    for name in damaged:
        (sweep.engine._sweep / "done" / name).write_bytes(content)
    os.close(sweep.engine._lock)
    sweep = Sweep(results, runs_per_job=1).start(2)
    assert slurm.names(sweep.engine._sweep / "todo") == damaged
    for job_id in fake.jobs()[-2:]:
        sweep.job(job_id, monkeypatch)
    sweep.step()
    assert sweep.status() == dict.fromkeys(range(2), ("ok", ""))


def test_a_run_whose_job_is_queued_anew_is_said_once(fake, results):
    sweep = Sweep(results).start(1)
    sweep.begins("1")
    for state in ("RUNNING", "PENDING", "PENDING"):
        fake.becomes("1", state)
        sweep.step()
    assert sweep.said == ["SLURM queues job 1 anew, whose run then starts again"]


def test_a_sweep_of_another_user_is_left_alone(fake, results, monkeypatch):
    first = Sweep(results)

    def take_lock(folder, *, create=True):
        if folder == first.engine._sweep:
            raise PermissionError
        return temporary.take_lock(folder, create=create)

    monkeypatch.setattr(slurm, "take_lock", take_lock)
    assert Sweep(results).engine._sweep != first.engine._sweep
    assert first.engine._sweep.is_dir()
