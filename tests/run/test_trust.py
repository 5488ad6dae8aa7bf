"""Files and rows from elsewhere run nothing, and damaged reports end no sweep."""

import json
import os
import subprocess
import sys

import pytest

from kbench.cli import main
from kbench.commands.debugging import overrides_of
from kbench.config import Limits, composer
from kbench.errors import ConfigError, KbenchError
from kbench.run import temporary
from kbench.run.claims import Claims
from kbench.run.sandbox import Sandbox

BARE = Limits(wall_s=None, setup_s=60.0)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("group", "text", "named"),
    [
        ("dataset", "# @package _global_\nmethod: {name: other}\n", "has the header"),
        ("grid", "# @package method\nestimator: os.system\n", "has the header"),
        ("dataset", "about: ${oc.env:HOME}\n", "only ${use:...} is allowed"),
        ("dataset", 'about: "${oc\\x2eenv:HOME}"\n', "only ${use:...} is allowed"),
        ("dataset", "x: oc\nabout: ${${.x}.env:HOME}\n", "only ${use:...} is allowed"),
        ("dataset", "defaults: [file, _self_]\npath: /etc/passwd\n", "sets path, which is for the"),
        ("dataset", "variants: {a: {test_path: ../x}}\n", "sets test_path, which is for the"),
        ("limits", "defaults: [/method@_global_: svc]\n", "should be a name of the same group"),
    ],
)
def test_a_file_of_a_group_does_not_reach_outside_of_it(here, group, text, named):
    folder = here / "configs" / group
    folder.mkdir(parents=True)
    (folder / "hostile.yaml").write_text(text)
    os.environ.setdefault("HOME", "/")
    with composer() as hydra, pytest.raises(ConfigError) as refused:
        hydra.compose(["method=svc", "dataset=digits", f"{group}=hostile"])
    if "defaults" not in text:  # Hydra itself may refuse the include first
        assert named in str(refused.value)


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ("method", "name: hostile\nestimator: sklearn.svm.SVC\nmeta: {tasks: 7}\n"),
        ("dataset", "name: hostile\ntask: binary\nsource: 3\n"),
        ("dataset", "C: 1\n"),
        ("dataset", "name: hostile\ntask: binary\nvariants: {a: 4}\nsource: {kind: file}\n"),
        ("dataset", "a: " + "[" * 2000 + "]" * 2000),
        ("experiment", "# @package _global_\nplan: 3\n"),
    ],
    ids=["tasks", "source", "keys", "variants", "nested", "plan"],
)
def test_a_file_of_another_form_is_one_line(here, capsys, group, text):
    folder = here / "configs" / group
    folder.mkdir(parents=True)
    (folder / "hostile.yaml").write_text(text)
    words = {
        "method": (["plan", "method=hostile", "dataset=digits"], ["list", "methods"]),
        "dataset": (["plan", "method=dummy", "dataset=hostile"], ["data", "where", "hostile"]),
        "experiment": (["plan", "experiment=hostile"], ["list", "experiments"]),
    }[group]
    for command in words:
        assert main(command) == 2
        said = capsys.readouterr().err
        assert said.startswith("kbench: ")
        assert said.count("\n") == 1


def test_an_existing_key_with_a_plus_is_answered_with_the_key_itself(here):
    with composer() as hydra, pytest.raises(ConfigError, match=r"write dataset\.split\.kind="):
        hydra.compose(["method=svc", "+dataset.split.kind=random"])


def _row(**changes):
    row = {
        "key": "0123456789abcdef",
        "method": "svc",
        "dataset": "digits",
        "seed": 3,
        "params": json.dumps({"C": 2.0}),
        "command": "kbench method=svc dataset=digits limits.wall_s=9 dataset.scale=none",
    }
    return row | changes


def test_debug_takes_parameters_from_the_columns_and_no_estimator_from_the_command():
    hostile = _row(
        command="kbench method=other ++method.estimator=os.system +dataset.source.url=http://x "
        "limits.wall_s=9 grid=c_gamma dataset.scale=none"
    )
    words, ignored = overrides_of(hostile)
    assert "method=svc" in words
    assert "++method.C=2.0" in words
    assert "limits.wall_s=9" in words
    assert "dataset.scale=none" in words
    assert not any("os.system" in word or "source" in word for word in words)
    assert ignored == ["+dataset.source.url=http://x", "grid=c_gamma"]


@pytest.mark.parametrize(
    "params",
    [{"estimator": "os.system"}, {"meta": {}}, {"a.b": 1}, {"C": "${oc.env:HOME}"}, [1]],
)
def test_debug_refuses_parameters_that_are_none(params):
    with pytest.raises(ConfigError):
        overrides_of(_row(params=json.dumps(params)))


def _reports_nonsense(task, send):
    send(task)


@pytest.mark.parametrize(
    "message",
    [
        {"event": "result"},
        {"event": "result", "status": "splendid"},
        {"event": "sing"},
        {"no": "event"},
        [],
        3,
    ],
)
def test_a_malformed_report_is_an_error(message):
    outcome = Sandbox().start(_reports_nonsense, message, BARE).outcome()
    assert outcome.status == "error"
    assert "malformed" in outcome.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(KbenchError, match="cannot write results in"):
        Claims(tmp_path / "results")


def test_a_results_folder_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "results").touch()
    with pytest.raises(KbenchError, match="cannot write results in"):
        Claims(tmp_path / "results")


def test_folders_of_killed_runners_are_removed(tmp_path):
    left = tmp_path / f"{temporary._PREFIX}left"
    held = tmp_path / f"{temporary._PREFIX}held"
    for folder in (left, held):
        folder.mkdir()
        (folder / "lock").touch()
    import fcntl

    with (held / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        temporary.remove_abandoned(tmp_path)
        assert held.exists()
        assert not left.exists()


def test_a_long_folder_for_temporary_files_is_no_obstacle(tmp_path):
    """The path of a socket may have 107 bytes only."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    words = [sys.executable, "-m", "kbench", "method=dummy", "dataset=iris"]
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
