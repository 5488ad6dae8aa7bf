"""What the progress shows on a terminal and elsewhere."""

import io
import itertools
import os
import pty
import re
import subprocess
import sys
import termios

import pytest
from harness import environment, furnish

from kbench.run.execution.guard import RunState
from kbench.run.execution.progress import MAX_LISTED_RUNS, Progress, Running, describe

OK = {"status": "ok", "accuracy": 0.98765, "fit_wall_s": 1.2345, "predict_wall_s": 0.01}
BAD = {"status": "timeout", "message": "not done within limits.wall_s=2", "key": "0123456789ab"}
FITTING = RunState("fit: solve", progress={"n_active": 7.0, "violation": 0.02})
SECOND = Running("knn on digits seed 0", RunState(), 0.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def told(stream, total, *rows):
    progress = Progress(total, stream)
    for row in rows:
        progress.running([Running("svc on digits seed 0", FITTING, 3.2, 1e-3), SECOND])
        progress.finished("svc on digits seed 0", row)
    progress.close()
    return stream.getvalue()


def test_plain_lines_without_a_terminal():
    assert told(io.StringIO(), 2, OK, BAD).splitlines() == [
        "[1/2] svc on digits seed 0: ok, accuracy 0.9877, fit 1.23 s, predict 0.01 s",
        (
            "[2/2] svc on digits seed 0: timeout: not done within limits.wall_s=2 "
            "[kbench debug 01234567]"
        ),
    ]


def test_a_live_line_with_what_runs_and_what_failed():
    said = told(Terminal(), 3, OK, BAD)
    assert "1/3" in said
    assert "0 failed, running svc on digits seed 0: fit: solve 3 s, violation 0.02" in said
    assert "(tol 0.001), n_active 7 and 1 more" in said
    assert "accuracy 0.9877" in said


def test_of_many_runs_a_terminal_shows_only_the_failed_ones():
    said = told(Terminal(), MAX_LISTED_RUNS + 1, OK, BAD)
    assert "accuracy" not in said
    assert "timeout: not done" in said


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ({"rmse": 2.70412}, "RMSE 2.704"),
        ({"rmse": 2.70412, "pinball": 0.51234, "coverage": 0.9}, "pinball loss 0.5123"),
        ({"accuracy": 0.98765, "roc_auc": 0.9}, "accuracy 0.9877"),
        ({"accuracy": None, "roc_auc": 0.91234}, "ROC AUC 0.9123"),
    ],
)
def test_a_run_is_described_by_the_score_of_its_kind(scores, shown):
    row = {"status": "ok", "fit_wall_s": 0.1, "predict_wall_s": 0.2} | scores
    assert describe(row) == f"ok, {shown}, fit 0.1 s, predict 0.2 s"
    kept = row | {"key": "45ff2ce593b3", "model": "_models/45ff2ce593b3.npz"}
    assert describe(kept) == f"ok, {shown}, fit 0.1 s, predict 0.2 s, model=45ff2ce5"


def test_compiling_is_announced_once_without_a_terminal():
    stream = io.StringIO()
    progress = Progress(2, stream)
    for seed in (0, 1):
        label = f"meka on digits seed {seed}"
        progress.running([Running(label, RunState("warm up", compiling=True), 2.0)])
    assert stream.getvalue() == "meka on digits seed 0: compiling, once on this machine\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reading a terminal that was closed")
def test_a_terminal_shows_each_second_what_a_fit_does(tmp_path):
    outer, inner = pty.openpty()
    termios.tcsetwinsize(inner, (24, 200))
    process = subprocess.Popen(
        [sys.executable, "-m", "kbench", "method=hangs", "limits.wall_s=4"],
        cwd=furnish(tmp_path),
        env=environment(),
        stderr=inner,
        stdout=subprocess.DEVNULL,
    )
    os.close(inner)
    shown = b""
    try:
        while data := os.read(outer, 65_536):
            shown += data
    except OSError:  # Linux: the other end is closed
        pass
    assert process.wait() == 1
    ticks = re.findall(
        r"running hangs on digits seed 0: fit(?:: sleep)? (\d+) s, objective 1, n_active",
        shown.decode(),
    )
    seconds = list(dict.fromkeys(map(int, ticks)))
    assert len(seconds) >= 3, shown.decode()
    assert max(b - a for a, b in itertools.pairwise(seconds)) <= 2
    assert b"timeout: not done within limits.wall_s=4" in shown
