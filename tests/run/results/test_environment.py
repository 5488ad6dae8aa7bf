"""What an environment's id depends on, and that asking for it disturbs nothing."""

import json
import os
import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pytest
import scipy

from kbench.report.comparisons.cells import describe_machine
from kbench.report.comparisons.tables import TimingConditions
from kbench.run.results.environment import (
    _HARMLESS,
    _SLOWING,
    describe,
    environment_id,
    source_state,
)


def test_description_is_that_of_the_running_software():
    env = describe()
    assert env["packages"]["numpy"] == np.__version__
    assert env["packages"]["scipy"] == scipy.__version__
    assert env["python"].endswith(platform.python_version())
    assert 1 <= env["cores"] <= env["logical_cpus"]
    assert env["ram_gib"] == round(psutil.virtual_memory().total / 2**30)
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    assert env["blas"] == f"{blas['name']} {blas['version']}"
    json.dumps(env)


def test_id_is_stable_and_leaves_out_what_changes():
    env = describe()
    assert re.fullmatch("[0-9a-f]{8}", environment_id(env))
    assert environment_id(env) == environment_id(json.loads(json.dumps(describe())))
    assert environment_id({**env, "kernel": "9.9"}) == environment_id(env)
    assert environment_id({**env, "cpu": "another"}) != environment_id(env)
    packages = {**env["packages"], "numpy": "0"}
    assert environment_id({**env, "packages": packages}) != environment_id(env)
    assert "kbench" not in env["packages"]
    assert platform.node() not in json.dumps(env).split('"')


@pytest.mark.parametrize("name", [*_SLOWING, "NUMBA_OPT", "NUMBA_DISABLE_JIT", *sorted(_HARMLESS)])
def test_a_variable_that_makes_code_slower_is_another_environment(monkeypatch, name):
    for known in (*_SLOWING, *(n for n in os.environ if n.startswith("NUMBA_"))):
        monkeypatch.delenv(known, raising=False)
    before = describe()
    monkeypatch.setenv(name, "1")
    env = describe()
    assert env.get("variables") == (None if name in _HARMLESS else f"{name}=1")
    assert (environment_id(env) == environment_id(before)) == (name in _HARMLESS)
    machine = TimingConditions("0a1b2c3d", 1, None)
    assert (f"{name}=1" in describe_machine(machine, {"0a1b2c3d": env})) == (name not in _HARMLESS)


def test_without_proc_nothing_fails(monkeypatch):
    read_text = Path.read_text

    def absent(self, *arguments, **keywords):
        if self.name == "METADATA":  # of an installed package, which is there on any system
            return read_text(self, *arguments, **keywords)
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_text", absent)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: absent(Path("os-release")))
    for system in ("Linux", "Darwin"):
        monkeypatch.setattr(platform, "system", lambda system=system: system)
        assert environment_id(describe())


@pytest.fixture
def package(tmp_path):
    """A folder with a package."""
    module = tmp_path / "kbench" / "run" / "environment.py"
    module.parent.mkdir(parents=True)
    module.touch()
    return tmp_path


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_source_state_of_a_checkout(package):
    git(package, "init", "-q")
    git(package, "add", ".")
    git(package, "commit", "-q", "-m", "first")
    commit = git(package, "rev-parse", "HEAD")
    assert source_state(package)[1:] == (commit, False)
    (package / "results").mkdir()
    (package / "results" / "new.parquet").touch()
    assert source_state(package)[1:] == (commit, False)
    (package / "kbench" / "new.py").touch()
    assert source_state(package)[1:] == (commit, True)


def test_source_state_without_a_checkout(package, monkeypatch):
    assert source_state(package)[1:] == (None, None)
    (package / ".git").mkdir()  # not a repository
    assert source_state(package)[1:] == (None, None)
    monkeypatch.setenv("PATH", "")  # no git
    assert source_state(package)[1:] == (None, None)
