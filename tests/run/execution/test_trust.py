"""Files and rows from elsewhere run nothing, and damaged reports end no sweep."""

import errno
import fcntl
import json
import os
import re
import sys

import pytest
from harness import kbench, python, refusal

from kbench.commands.debugging import overrides_of
from kbench.config import composer
from kbench.errors import ConfigError, KbenchError, UnavailableError
from kbench.run.execution import preparing, temporary
from kbench.run.execution.reservations import Reservations
from kbench.run.execution.sandbox import Sandbox
from kbench.run.planning import registry
from kbench.settings import Limits

BARE = Limits(wall_s=None, setup_s=60.0)


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
def test_a_file_of_a_group_does_not_reach_outside_of_it(here, config_file, group, text, named):
    config_file(f"{group}/hostile.yaml", text)
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
def test_a_file_of_another_form_is_one_line(here, config_file, capsys, group, text):
    config_file(f"{group}/hostile.yaml", text)
    words = {
        "method": (["plan", "method=hostile", "dataset=digits"], ["list", "methods"]),
        "dataset": (["plan", "method=dummy", "dataset=hostile"], ["data", "where", "hostile"]),
        "experiment": (["plan", "experiment=hostile"], ["list", "experiments"]),
    }[group]
    for command in words:
        assert refusal(capsys, *command)


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
    "params", [{"estimator": "os.system"}, {"meta": {}}, {"a.b": 1}, {"C": "${oc.env:HOME}"}, [1]]
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


def _without_root_s_rights():
    """In a child: files of others are closed to root, too (it loses its capabilities on exec)."""
    import ctypes

    PR_CAPBSET_DROP = 24
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(4):  # chown, dac_override, dac_read_search, fowner
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


IS_ROOT = os.geteuid() == 0


# Each command is given as JSON, and answered by its exit code and what it wrote to stderr.
_COMMANDS = """
import contextlib, io, json, sys
from kbench.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(words)
    print(json.dumps([code, said.getvalue()]))
"""


def of(path):
    return ["method=dummy", "dataset=file", f"dataset.path={path}", "dataset.task=binary"]


TOY = of("toy.libsvm")


@pytest.mark.skipif(IS_ROOT and sys.platform != "linux", reason="root writes everywhere")
def test_what_belongs_to_another_user_is_one_line(here):
    text = "1 1:1\n-1 1:2\n" * 8
    (here / "toy.libsvm").write_text(text)
    folders = {"results": 0o555, "hidden_results": 0, "datasets": 0o555, "hidden_datasets": 0}
    files = ("hidden.libsvm", "hidden.csv", "hidden.mat")
    for name in files:
        (here / name).write_text(text)
    for name in folders:
        (here / name).mkdir()
    for name, mode in (folders | dict.fromkeys(files, 0)).items():
        (here / name).chmod(mode)
        if IS_ROOT:
            os.chown(here / name, 65534, 65534)
    (here / "own").mkdir()
    own = ["datasets_dir=own"]
    expected = [
        ([*TOY, *own, "results_dir=results"], "cannot write .*results.*: Permission denied"),
        ([*TOY, *own, "results_dir=hidden_results"], "cannot read the folder hidden_results: Perm"),
        (["merge", "results_dir=results"], "cannot write in results: Permission denied"),
        (["report", "results_dir=hidden_results"], "cannot read the folder hidden_results: Perm"),
        (TOY, r"datasets/_prepared.*: cannot be written \(Permission denied\)"),
        (
            [*TOY, "datasets_dir=hidden_datasets"],
            r"hidden.*: cannot be written \(Permission denied",
        ),
        *(([*of(f), *own], rf"{f}: Permission denied") for f in files),
        ([*of("hidden_results/a"), *own], "there is no file hidden_results/a"),
        # Private folders in $KBENCH_DATA are passed over.
        (
            ["method=dummy", "dataset=ijcnn1", "download=false", *own],
            "ijcnn1 is not there, it comes",
        ),
    ]
    commands = json.dumps([words for words, _ in expected])
    environment = os.environ | {"KBENCH_DATA": str(here)}
    rights = _without_root_s_rights if IS_ROOT else None
    done = python("-c", _COMMANDS, commands, cwd=here, env=environment, preexec_fn=rights)
    for name in folders:
        (here / name).chmod(0o700)  # for pytest, which removes them
    assert done.stderr == ""
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for (words, said), (code, told) in zip(expected, answers, strict=True):
        assert code == 2, words
        assert re.fullmatch(f"kbench: .*{said}.*\n", told), words


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PermissionError(13, "Permission denied", "configs/\x1b"),
            "kbench: configs/\\x1b: Permission",
        ),
        (RuntimeError("cannot cache function 'f': no locator available"), "kbench: numba can"),
    ],
)
def test_what_may_not_be_read_or_cached_is_one_line(monkeypatch, capsys, error, said):
    def fails(words):
        raise error

    monkeypatch.setattr("kbench.commands.doctor.main", fails)
    assert refusal(capsys, "doctor").startswith(said)


def test_a_preparation_without_a_cache_is_one_line():
    def fails(*_, **__):
        raise RuntimeError("cannot cache function 'f': no locator available")

    told = []
    preparing._prepare(fails, told.append)
    assert told[-1]["message"].startswith("numba can write")


def test_a_class_without_a_cache_is_unavailable_and_says_what_to_do(here, monkeypatch):
    (here / "uncached.py").write_text("raise RuntimeError('cannot cache function f')\n")
    monkeypatch.syspath_prepend(here)
    with pytest.raises(
        UnavailableError, match=r"uncached.Model cannot be loaded: .*NUMBA_CACHE_DIR"
    ):
        registry.load("uncached:Model")


def test_the_reservations_of_a_shared_folder_take_the_rights_of_the_umask(tmp_path):
    before = os.umask(0o002)
    try:
        Reservations(tmp_path / "shared").close()
    finally:
        os.umask(before)
    assert (tmp_path / "shared" / "_claims").stat().st_mode & 0o777 == 0o664


def test_a_results_folder_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "results").touch()
    with pytest.raises(KbenchError, match="cannot write results in"):
        Reservations(tmp_path / "results")


def test_a_disk_without_file_locks_is_said_once(tmp_path, monkeypatch, caplog):
    """Every run was taken for another command's, so that the command waited for ever."""

    def lockf(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "lockf", lockf)
    reservations = Reservations(tmp_path)
    assert reservations.take("1" * 32)
    assert reservations.take("2" * 32)
    reservations.give_back("1" * 32)
    assert len(caplog.messages) == 1
    assert "has no file locks (Function not implemented)" in caplog.messages[0]


def test_folders_of_killed_runners_are_removed(tmp_path):
    unlocked = tmp_path / f"{temporary._PREFIX}unlocked"  # no runner's, or one is removing it
    unlocked.mkdir()
    left = tmp_path / f"{temporary._PREFIX}left"
    held = tmp_path / f"{temporary._PREFIX}held"
    for folder in (left, held):
        folder.mkdir()
        (folder / "lock").touch()
    with (held / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        temporary.remove_abandoned(tmp_path)
        assert held.exists()
        assert not left.exists()
        assert not any(unlocked.iterdir())


def test_a_long_folder_for_temporary_files_is_no_obstacle(tmp_path):
    """The path of a socket may have 107 bytes only."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    kbench(tmp_path, "method=dummy", "dataset=iris", check=0, env={"TMPDIR": str(folder)})
