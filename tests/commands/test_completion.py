"""Completion: candidates of a line, and bash itself pressing the key."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbench.cli import main
from kbench.commands import COMMANDS
from kbench.commands.completion import SHELLS, candidates
from kbench.config import options


@pytest.mark.parametrize(
    ("line", "some", "none"),
    [
        ("", ["method=", "dataset=", "report", "-m", "rerun="], ["words"]),
        ("me", ["method=", "merge"], ["list"]),
        ("method=kn", ["method=knn"], ["method=svc"]),
        ("method=svc,kn", ["method=svc,knn"], ["method=svc,svc"]),
        ("method=svc method.", ["method.C=", "method.gamma="], ["method.meta.about=", "method.k="]),
        ("dataset=digits dataset.sp", ["dataset.split.seed="], []),
        ("limits.", ["limits.wall_s=", "limits.threads="], []),
        ("parallel=", ["parallel=dask"], []),
        ("plan method=sv", ["method=svc"], []),
        ("plan ", ["method=", "seed=", "show="], ["methods"]),
        ("tune ", ["method=", "seed=", "tune.cv="], ["methods"]),
        ("tune method=svc,kn", ["method=svc,knn"], []),
        ("tune method=svc method.", ["method.C="], ["method.k="]),
        ("list ", ["methods", "--json"], ["method="]),
        ("data check ij", ["ijcnn1"], []),
        ("completion ", list(SHELLS), []),
        ("predict dataset=ij", ["dataset=ijcnn1"], []),
        ("predict ", ["model=", "out=", "proba="], []),
        ("report ", ["format=", "metric=", "papers"], []),
    ],
)
def test_candidates(line, some, none):
    found = candidates(line.split(" "))
    assert set(some) <= set(found)
    assert not set(none) & set(found)
    assert all(word.startswith(line.split(" ")[-1]) for word in found)


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"completion", "plan"}))
def test_every_key_of_a_command_is_offered(command, capsys):
    """The keys and flags are those that the command names when it meets another one."""
    assert main([command, "tune.z=1" if command == "tune" else "z=1"]) == 2
    named = capsys.readouterr().err.partition("it takes ")[2].replace("...", "").split()
    assert named
    assert {word.strip(",") for word in named} <= set(candidates([command, ""]))


def test_every_command_and_every_method_is_offered():
    assert set(COMMANDS) <= set(candidates([""]))
    assert candidates(["method="]) == sorted(f"method={name}" for name in options("method"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_replaces_what_follows_the_equals_sign(tmp_path):
    path = Path(sys.executable).parent
    script = f"""
    PATH={path}:$PATH
    source <(kbench completion bash)
    for COMP_LINE in "kbench method=kn" "kbench list " "kbench method=svc method.gam"; do
        COMP_POINT=${{#COMP_LINE}}
        _kbench
        echo "${{COMPREPLY[*]}}"
    done
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    values, words, key = done.stdout.splitlines()
    assert values.split() == ["knn", "knn_regressor"]
    assert "methods" in words.split()
    assert key == "method.gamma="
    assert done.stderr == ""


def test_an_unknown_shell_is_one_line(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "should be one of bash, zsh, fish" in capsys.readouterr().err


def test_lists_as_json(capsys):
    assert main(["list", "methods", "datasets", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {entry["name"] for entry in listed["methods"]} == set(options("method"))
    svc = next(entry for entry in listed["methods"] if entry["name"] == "svc")
    assert svc["tasks"] == ["binary", "multiclass"]
    assert Path(svc["config"]).is_file()
    digits = next(entry for entry in listed["datasets"] if entry["name"] == "digits")
    assert digits["state"] == "present"
