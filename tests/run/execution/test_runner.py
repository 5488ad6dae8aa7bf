"""The runner as a user starts it: statuses, skipping, signals, several runners, nothing lost."""

import json
import shlex
import signal
import time
import uuid
from collections import Counter

import pandas as pd
import pytest
from harness import MISDEEDS, furnish, kbench, rows, run_here, start, wait_for, workers


@pytest.fixture
def here(tmp_path):
    return furnish(tmp_path)


def test_every_misdeed_gets_its_status_and_the_sweep_goes_on(here):
    marker = f"kbench-{uuid.uuid4().hex}"
    words = ["-m", f"method={','.join(MISDEEDS)}", "dataset=digits", f"method.marker={marker}"]
    done = run_here(here, *words, "limits.wall_s=1", "limits.memory_mb=300", check=1)
    found = rows(here).set_index("method")
    assert found["status"].to_dict() == MISDEEDS
    assert found.loc["raises", "message"] == "RuntimeError: a line and another"
    assert "RuntimeError" in found.loc["raises", "log"]
    assert "code 7" in found.loc["exits", "message"]
    assert "SIGKILL" in found.loc["is_killed", "message"]
    assert "limits.wall_s=1" in found.loc["hangs", "message"]
    assert found.loc["prints", "log"].endswith("the end of it\n")
    assert found.loc["nothing", "accuracy"] > 0
    assert bool(found.loc["does_not_converge", "converged"]) is False
    assert found.loc["does_not_converge", "n_iter"] == 5
    assert found.loc["does_not_converge", "message"] in done.stderr
    assert found["fit_wall_s"].notna().equals(found["status"] == "ok")
    assert not any(marker in " ".join(p.cmdline()) for p in workers(here))
    failed = {name for name, status in MISDEEDS.items() if status != "ok"}
    assert all(f"{name} on digits" in done.stderr for name in failed)
    logs = {path.stem for path in (here / "results" / "_logs").glob("*.txt")}
    assert found.loc["raises", "key"] in logs


def test_a_row_holds_what_the_fit_said_and_the_command_that_reproduces_it(here):
    run_here(here, "method=nothing", "method.seconds=0.2", "seed=3", "limits.wall_s=9", check=0)
    row = rows(here).iloc[0]
    said = set(shlex.split(row["command"]))
    assert {"dataset=digits", "limits.wall_s=9", "seed=3", "method.seconds=0.2"} <= said
    phases = dict(row["phases"])
    assert 0.2 <= phases["sleep"] <= row["fit_wall_s"] < 0.5
    assert row["fit_cpu_s"] < 0.2
    assert json.loads(row["params"])["seconds"] == 0.2
    curves = pd.read_parquet(here / "results" / "_curves")
    assert set(curves["curve"]) == {"objective", "n_active"}
    again = run_here(here, *shlex.split(row["command"])[1:], check=0)
    assert "nothing to do; 1 done before" in again.stdout


def test_what_is_done_is_not_done_again_unless_asked(here):
    command = ["-m", "method=nothing,raises", "seed=0,1"]
    run_here(here, *command, check=1)
    assert len(rows(here)) == 4

    def redone(*more):
        attempt = ["key", "attempt", "started_at"]
        before = set(rows(here)[attempt].itertuples(index=False))
        run_here(here, *command, *more, check=1)
        after = rows(here).set_index(attempt)
        assert before <= set(after.index), "an attempt is lost"
        return Counter(after["method"][~after.index.isin(before)])

    assert redone() == {}
    assert redone("rerun=failed") == {"raises": 2}
    assert redone("rerun=changed") == {}
    assert redone("rerun=all") == {"nothing": 2, "raises": 2}
    assert redone("limits.threads=1") == {}
    counts = rows(here).groupby(["method", "seed"])["attempt"].agg(list).map(sorted)
    assert counts.to_dict() == {
        ("nothing", 0): [1, 2],
        ("nothing", 1): [1, 2],
        ("raises", 0): [1, 2, 3],
        ("raises", 1): [1, 2, 3],
    }


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_no_row_is_written_beside_rows_that_were_removed(here, how):
    """A disk that goes away, and a folder that somebody removes, take the rows of the command."""
    command = ["-m", "method=nothing", "method.seconds=0.5", "seed=0,1"]
    runner = start(here, *command)
    wait_for(lambda: list(here.glob("results/*.parquet")))
    (here / "results").rename(here / "elsewhere")
    if how == "replaced":
        (here / "results").mkdir()
        (here / "results" / "_claims").touch()
    _, stderr = runner.communicate(timeout=60)
    assert runner.returncode == 2
    assert "kbench: the folder results was removed during the command" in stderr
    run_here(here, *command, check=0)
    assert sorted(rows(here)["seed"]) == [0, 1]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_sweep_leaves_a_row_and_goes_on_later(here, signum):
    command = ["-m", "method=nothing", f"method.marker={here / 'fit'}", "method.seconds=2"]
    command += ["seed=0,1"]
    runner = start(here, *command)
    wait_for(lambda: list(here.glob("fit-*")))
    runner.send_signal(signum)
    _, said = runner.communicate(timeout=30)
    assert runner.returncode == 128 + signum, said
    assert "Traceback" not in said
    assert rows(here)["status"].to_list() == ["interrupted"]
    wait_for(lambda: not workers(here), within=5)
    run_here(here, *command, check=0)
    assert rows(here)["status"].to_list() == ["ok", "ok"]


def test_a_second_ctrl_c_ends_at_once_and_leaves_nothing_running(here):
    runner = start(here, "method=hangs", f"method.marker={here / 'fit'}")
    wait_for(lambda: list(here.glob("fit-*")))
    runner.send_signal(signal.SIGINT)
    runner.send_signal(signal.SIGINT)
    runner.communicate(timeout=10)
    assert runner.returncode == 130
    wait_for(lambda: not workers(here), within=5)


def test_runners_a_merge_loop_and_a_report_loop_at_once_do_each_run_once(here):
    """Every fit adds a byte to a file, so that a repeated run is seen even if its row is not."""
    command = ["-m", "method=notes_its_fit", f"method.marker={here / 'fits'}"]
    command += ["method.seconds=0.05", "seed=range(0,30)"]
    runners = [start(here, *command) for _ in range(2)]
    beside = {"merge": ["merge"], "report": ["report", "format=csv", "out=report"]}
    loops = {name: start(here, *words) for name, words in beside.items()}
    passes = Counter()
    deadline = time.monotonic() + 240
    while any(runner.poll() is None for runner in runners):
        assert time.monotonic() < deadline
        for name, process in loops.items():
            if process.poll() is not None:
                _, said = process.communicate()
                # Before the first row exists there is nothing to report.
                assert process.returncode == 0 or "no rows" in said, said
                passes[name] += process.returncode == 0
                loops[name] = start(here, *beside[name])
        time.sleep(0.02)
    said = [process.communicate()[1] for process in (*runners, *loops.values())]
    assert [runner.returncode for runner in runners] == [0, 0], said
    assert sum(text.count(": ok,") for text in said[:2]) == 30
    assert (here / "fits").stat().st_size == 30
    assert passes["merge"] >= 1
    kbench(here, "merge", check=0)
    assert sorted(rows(here)["seed"]) == list(range(30))


def test_jobs_are_used_only_when_asked_and_the_row_says_so(here):
    command = ["-m", "method=nothing", "method.seconds=0.5"]
    run_here(here, *command, "seed=0,1,2,3", "parallel.jobs=2", check=0)
    found = rows(here).sort_values("started_at")
    assert found["jobs"].to_list() == [2, 2, 2, 2]
    begins = found["started_at"]
    ends = begins + pd.to_timedelta(found["fit_wall_s"], unit="s")
    assert begins.iloc[1] < ends.iloc[0]  # two at a time
    run_here(here, *command, "seed=4,5", check=0)
    alone = rows(here).query("seed >= 4").sort_values("started_at")
    assert alone["jobs"].to_list() == [1, 1]
    assert alone["started_at"].iloc[1] > alone["started_at"].iloc[0] + pd.Timedelta(seconds=0.5)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["method=positive", "method.value=-1"], "'value' parameter of Positive must be >= 0"),
        # ijcnn1 is not there.
        (
            ["-m", "method=svc", "method.C=1,-1", "dataset=ijcnn1,digits"],
            "The 'C' parameter of SVC",
        ),
    ],
)
def test_parameters_are_checked_before_anything_runs(here, words, named):
    done = run_here(here, *words, check=2)
    assert named in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (here / "results").exists()
    assert not (here / "datasets" / "_prepared" / "digits").exists(), "data were loaded"


def test_test_scores_of_several_values_are_a_curve(here):
    words = ["method=hss_admm", "dataset=breast_cancer", "dataset.scale=unit"]
    run_here(here, *words, "method.C=[0.01,1]", check=0)
    row = rows(here).iloc[0]
    curves = pd.read_parquet(here / "results" / "_curves")
    scores = curves[(curves["curve"] == "accuracy") & (curves["x_name"] == "C")]
    assert list(scores["x"]) == [0.01, 1.0]
    assert row["accuracy"] in set(scores["value"])
    assert len(curves[curves["curve"] == "validation_accuracy"]) == 2


def test_a_tag_labels_the_rows_of_a_command_and_no_others(here):
    sweep = ["-m", "method=nothing", "seed=0,1"]
    run_here(here, "method=nothing", "seed=0", check=0)
    done = run_here(here, *sweep, "tag=second", check=0)
    assert "1 of the rows that existed before have another tag or none" in done.stderr
    found = rows(here).set_index("seed")["tag"]
    assert found.isna().to_dict() == {0: True, 1: False}
    assert found[1] == "second"
    table = json.loads(run_here(here, "report", "tag=second", "format=json", check=0).stdout)
    assert [line["runs"] for line in table["comparisons"]] == [1]
    refused = run_here(here, "report", "tag=third", check=2).stderr
    assert "no row has tag 'third'; rows have: second" in refused


def test_on_error_stop_begins_no_run_after_the_first_that_failed(here):
    sweep = ["-m", "method=nothing,raises,prints", "seed=0,1", "on_error=stop"]
    done = run_here(here, *sweep, check=1)
    assert rows(here).groupby("method").size().to_dict() == {"nothing": 2, "raises": 1}
    assert "3 not begun" in done.stdout
    run_here(here, *sweep, check=1)  # the old failure does not stop it, the new one does
    again = run_here(here, *sweep, check=1)
    assert rows(here).groupby("method").size().to_dict() == {"nothing": 2, "raises": 2, "prints": 2}
    message = "RuntimeError: a line and another"
    assert again.stderr.count(message) == 1, "one line for each message"
    assert f"2 runs, error: {message}" in again.stderr
