"""Commands under whatever a shell, a daemon or a full disk makes of their streams and folders."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbench import streams
from kbench.commands import COMMANDS
from kbench.run.results.folder import ResultsFolder

KBENCH = Path(sys.executable).with_name("kbench")
RUN = f"{KBENCH} method=dummy dataset=iris results_dir=r"
REDIRECTIONS = ["1>&-", "1>/dev/full", "2>&-", "2>/dev/full"]


def shell(here, text, **options):
    done = subprocess.run(
        ["bash", "-c", text], cwd=here, capture_output=True, text=True, timeout=120, **options
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("redirection", REDIRECTIONS)
def test_a_run_is_done_whatever_its_streams_are(tmp_path, redirection):
    done = shell(tmp_path, f"{RUN} {redirection}")
    assert len(ResultsFolder(tmp_path / "r").read(reference=False)) == 1
    full = redirection == "1>/dev/full"
    assert done.returncode == (2 if full else 0)
    if full:
        assert done.stderr.splitlines()[-1].startswith("kbench: cannot write to standard output")


WORDS = {
    "list": "list methods",
    "plan": "plan method=dummy dataset=iris",
    "tune": "tune method=knn dataset=iris method.n_neighbors=1,3 tune.validation=0.25",
    "data": "data check iris",
    "report": "report",
    "predict": "predict model=m.npz out=o.csv dataset=iris",
    "merge": "merge",
    "publish": "publish",
    "import": "import nowhere",
    "debug": "debug 0",
    "completion": "completion bash",
    "doctor": "doctor",
}
STATES = {
    "closed output": "{} >&-",
    "full output": "{} >/dev/full",
    "closed errors": "{} 2>&-",
    "full errors": "{} 2>/dev/full",
    "nothing open": "{} <&- >&- 2>&-",
    "ASCII": "PYTHONIOENCODING=ascii LC_ALL=C {}",
    "gone": "mkdir gone; cd gone; rmdir ../gone; {}",
    "a narrow terminal": "COLUMNS=1 {}",
    "few files": "ulimit -n 12; {}",
    "few seconds": "ulimit -t 2; {}",
    "little memory": "ulimit -v 400000; {}",
    "no compiling": "NUMBA_DISABLE_JIT=1 {}",
}
SAID = {
    "gone": "the working directory is gone",
    "few files": "this shell allows 12 open files",
    "few seconds": "this shell allows 2 CPU seconds",
    "little memory": "this shell allows 390 MiB of memory",
    "no compiling": "this shell has NUMBA_DISABLE_JIT set",
}


def test_every_command_is_tried():
    assert set(WORDS) == set(COMMANDS)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("command", WORDS)
def test_no_command_shows_a_traceback_in_any_shell(tmp_path, command, state):
    done = shell(tmp_path, STATES[state].format(f"{KBENCH} {WORDS[command]}"))
    assert done.returncode in ((0, 2, -9, 137) if state == "few seconds" else (0, 2))
    if state in SAID:
        said = f"kbench: {SAID[state]}"
        assert any(line.startswith(said) for line in done.stderr.splitlines())
    if state in ("gone", "few files") or (command, state) == ("list", "full output"):
        assert done.returncode == 2


def test_a_terminal_has_columns_for_a_word(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    assert streams.terminal_width(100) == 40
    monkeypatch.setenv("COLUMNS", "80")
    assert streams.terminal_width(100) == 80


def test_letters_that_a_stream_does_not_know_are_escaped(tmp_path):
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = shell(tmp_path, f"{KBENCH} report results_dir=é", env=ascii_only)
    assert "\\xe9" in done.stdout + done.stderr


def test_a_limit_of_cpu_seconds_makes_no_mistaken_row(tmp_path):
    shell(tmp_path, f"ulimit -t 100; {RUN}")
    assert list(ResultsFolder(tmp_path / "r").read(reference=False)["status"]) == ["ok"]


STARTED = """
import sys
import kbench.cli, kbench.commands.running, kbench.run.execution.preloaded
import multiprocessing.forkserver, multiprocessing.spawn, multiprocessing.resource_tracker
import kbench.run.execution.runner, kbench.run.planning.plan, kbench.config
with kbench.config.composer() as hydra: hydra.compose(["method=dummy"])
print(*{name.partition(".")[0] for name in sys.modules})
"""


@functools.cache
def imported():
    command = [sys.executable, "-P", "-c", STARTED]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", [[str(KBENCH)], [sys.executable, "-P", "-m", "kbench"]])
def test_no_module_of_the_working_directory_is_run(tmp_path, command):
    """Of every module that a command and its workers import."""
    names = {name for name in imported().split() if name.isidentifier()} - {"__main__"}
    assert {"random", "numpy", "kbench", "select", "types", "hydra"} <= names
    for name in names:
        (tmp_path / f"{name}.py").write_text("open('EXECUTED', 'a').write(__name__ + ' ')")
    words = ["method=dummy", "dataset=iris", "results_dir=r"]
    done = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True)
    executed = tmp_path / "EXECUTED"
    assert not executed.exists(), executed.read_text()
    assert done.returncode == 0, done.stderr


def test_a_method_of_the_users_own_is_found_by_pythonpath_alone(config_file, tmp_path):
    (tmp_path / "mine.py").write_text("from sklearn.dummy import DummyClassifier as Mine\n")
    config_file("method/mine.yaml", "name: mine\nestimator: mine.Mine\n")
    words = f"{KBENCH} method=mine dataset=iris results_dir=r rerun=failed"
    assert "PYTHONPATH" in shell(tmp_path, words).stderr
    assert shell(tmp_path, f"PYTHONPATH=. {words}").returncode == 0
    shutil.rmtree(tmp_path / "r")
