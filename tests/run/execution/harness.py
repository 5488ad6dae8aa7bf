"""The command line in a folder of its own, with misbehaving methods beside the shipped ones."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from kbench.cli import main
from kbench.config import composer
from kbench.run.execution import worker
from kbench.run.execution.preload import preloading_sandbox
from kbench.run.planning.command import canonical
from kbench.run.planning.plan import make_plan
from kbench.run.planning.task import Run, Task
from kbench.settings import Limits
from kbench.signals import SIGNALS

HERE = Path(__file__).parent
YAML = """
name: {name}
estimator: naughty.{cls}
meta: {{about: misbehaves, tasks: [binary, multiclass]}}
how: {how}
seconds: 0.0
marker: ''
value: 0
"""

MISDEEDS = {
    "nothing": "ok",
    "raises": "error",
    "exits_by_system_exit": "error",
    "hangs": "timeout",
    "eats": "memory",
    "exits": "crashed",
    "is_killed": "crashed",
    "prints": "ok",
    "leaves_children": "ok",
    "does_not_converge": "ok",
    "is_unavailable": "unavailable",
}


def furnish(here):
    """Make `here` a working directory with the naughty methods as configs of its own."""
    folder = here / "configs" / "method"
    folder.mkdir(parents=True)
    methods = {how: ("Naughty", how) for how in (*MISDEEDS, "notes_its_fit")}
    methods |= {"is_evaluated": ("Evaluated", "nothing"), "positive": ("Positive", "nothing")}
    for name, (cls, how) in methods.items():
        (folder / f"{name}.yaml").write_text(YAML.format(name=name, cls=cls, how=how))
    return here


def environment():
    """This process's environment without data of the user's."""
    own = {name: value for name, value in os.environ.items() if name != "KBENCH_DATA"}
    return own | {"PYTHONPATH": str(HERE)}


def kbench(here, *words, check=None, env=None, timeout=120):
    done = in_a_process(here, *words, check=check, env=environment() | (env or {}), timeout=timeout)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def in_a_process(here, *words, check=None, env=None, timeout=120):
    """What `kbench` does in a process of its own, whatever it prints."""
    done = python("-P", "-m", "kbench", *words, cwd=here, env=env, timeout=timeout)
    assert check in (None, done.returncode), done.stderr
    return done


def python(*arguments, **options):
    """What a Python with these arguments does in a process of its own, and what it prints."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)


def run_here(here, *words, check=None, own_data=False):
    """What `kbench` does, in this process, whose imports and fork server serve many tests.

    own_data : whether it sees the data of the user's.

    `kbench debug` fits here, with the threads that this process has.
    """
    preloading_sandbox(["kbench.methods.exact.kernel_svc:KernelSVC"])
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(here),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        if not own_data:
            patch.delenv("KBENCH_DATA", raising=False)
        patch.setattr(worker, "set_threads", lambda threads, cpus: None)
        done = subprocess.CompletedProcess(words, main(list(words)))
    done.stdout, done.stderr = out.getvalue(), err.getvalue()
    assert check in (None, done.returncode), done.stderr
    return done


def refusal(capsys, *words):
    """The one line with which a command, in this process, refuses its words."""
    assert main([*words]) == 2
    told = capsys.readouterr().err
    assert told.startswith("kbench: ")
    assert told.count("\n") == 1
    return told


def planned(*words, multirun=True):
    """The plan of a command, whose data are looked for on this machine alone."""
    with composer() as hydra:
        return make_plan(hydra, list(words), multirun=multirun)


def in_the_foreground():
    """Signals as a shell sets them; under nohup and in jobs of scripts the suite ignores some."""
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_DFL)


def start(here, *words, program=("-m", "kbench"), env=None):
    return subprocess.Popen(
        [sys.executable, *program, *words],
        cwd=here,
        env=environment() | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=in_the_foreground,
    )


def rows(here):
    return pd.read_parquet(here / "results")


def wait_for(condition, within=60.0):
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def workers(here):
    """Processes of any runner that was started in this folder, the fork servers' included."""
    return [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == str(here)]


def a_task(prepared="/nowhere", **changes):
    """The task of a run that is described, and not done; `changes` are of the run."""
    run = {"key": f"{0:032x}", "label": "", "method": "svc", "estimator": "m:C", "command": ""}
    run |= {"dataset": "digits", "variant": None, "task": "binary", "data_sha256": "0", "seed": 0}
    run |= {"params": {}, "warmup": {}, "dataset_config": {}, "limits": Limits()}
    run |= changes
    keys = {"params_key": canonical(run["params"]), "data_key": canonical(run["dataset_config"])}
    return Task(Run(**run, **keys), str(prepared), "", False)
