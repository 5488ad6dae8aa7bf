"""No row is lost and none comes twice, whoever writes, merges or is killed meanwhile."""

import contextlib
import fcntl
import multiprocessing
import os
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
from result_rows import make_row

from kbench.files import atomic_file, remove_abandoned
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.merge import merge

SPAWN = multiprocessing.get_context("spawn")


def seeds(folder):
    return sorted(pd.read_parquet(folder)["seed"])


def accuracies(folder):
    """Seed -> accuracy, as every reader of kbench sees the folder."""
    frame = ResultsFolder(folder).read().set_index("seed")
    assert frame.index.is_unique
    return frame["accuracy"].to_dict()


def write_rows(folder, numbers):
    results = ResultsFolder(folder)
    for number in numbers:
        results.write(make_row(number))


def merge_until(folder, stop, working):
    while not stop.is_set():
        merge(folder)
        working.set()


@pytest.mark.parametrize("age_s", [0.0, 1e6])
def test_a_merge_removes_only_temporary_files_that_nobody_writes(tmp_path, age_s):
    write_rows(tmp_path, range(2))
    then = time.time() - age_s
    (tmp_path / ".left.parquet.0a1b2c3d.tmp").write_bytes(b"cut off")
    os.utime(tmp_path / ".left.parquet.0a1b2c3d.tmp", (then, then))
    with atomic_file(tmp_path / "_models" / "model.npz") as file:
        file.write(b"whole")
        (written,) = (tmp_path / "_models").iterdir()
        os.utime(written, (then, then))
        merge(tmp_path)
        assert written.exists()
    assert (tmp_path / "_models" / "model.npz").read_bytes() == b"whole"
    assert not list(tmp_path.rglob(".*.tmp"))


def test_a_writer_takes_a_new_name_if_its_file_was_removed_before_it_was_locked(
    tmp_path, monkeypatch
):
    lock, names = fcntl.flock, []

    def removed_first(file, operation):
        if not names:
            names.extend(tmp_path.iterdir())
            remove_abandoned(*names)
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with atomic_file(tmp_path / "row") as file:
        file.write(b"whole")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"whole"]


def test_two_merges_at_once(tmp_path):
    stop, working = SPAWN.Event(), SPAWN.Event()
    mergers = [SPAWN.Process(target=merge_until, args=(tmp_path, stop, working)) for _ in range(2)]
    for process in mergers:
        process.start()
    working.wait()
    write_rows(tmp_path, range(150))
    stop.set()
    for process in mergers:
        process.join()
        assert process.exitcode == 0
    merge(tmp_path)
    assert seeds(tmp_path) == list(range(150))


@pytest.mark.parametrize("merged", [True, False])
def test_a_reader_finishes_what_a_killed_merge_has_begun(tmp_path, merged):
    """A renamed file, whose row is in the merged file or not; pandas does not see the name."""
    write_rows(tmp_path, range(3))
    (first, *_) = sorted(tmp_path.glob("*.parquet"))
    content = first.read_bytes()
    if merged:
        merge(tmp_path)
    else:
        first.unlink()
    (tmp_path / f".claimed-0a1b2c3d-{first.name}").write_bytes(content)
    assert sorted(ResultsFolder(tmp_path).read()["seed"]) == [0, 1, 2]
    assert not list(tmp_path.glob(".claimed-*"))
    assert seeds(tmp_path) == [0, 1, 2]


class Killed(BaseException):
    """Ends a merge where a SIGKILL would."""


STEPS = ["link", "unlink", "rename", "fsync"]


@pytest.mark.parametrize("count", range(6))
@pytest.mark.parametrize("step", STEPS)
def test_merge_ended_before_any_step_loses_nothing(tmp_path, monkeypatch, step, count):
    """Each call that changes the folder fails at some point; rows are written in between."""
    write_rows(tmp_path, range(3))
    expected = dict.fromkeys(range(3), 0.5)
    rename = Path.rename
    calls = 0
    writing = False

    def write_first(path, target):
        """A merge renames each file before it deletes it."""
        nonlocal writing
        writing = True
        number = 100 + len(expected)
        write_rows(tmp_path, [number])
        newer = make_row(1, accuracy=0.75, started_at=make_row(99)["started_at"])
        ResultsFolder(tmp_path).write(newer)
        expected.update({number: 0.5, 1: 0.75})
        writing = False
        return rename(path, target)

    def dies(function):
        def wrapped(*args, **kwargs):
            nonlocal calls
            calls += not writing
            if calls > count and not writing:
                raise Killed
            return function(*args, **kwargs)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", write_first)
        target = {
            "link": (os, "link"),
            "unlink": (Path, "unlink"),
            "rename": (Path, "rename"),
            "fsync": (os, "fsync"),
        }[step]
        patch.setattr(*target, dies(getattr(*target)))
        with contextlib.suppress(Killed):
            merge(tmp_path)
    assert accuracies(tmp_path) == expected
    merge(tmp_path)
    assert accuracies(tmp_path) == expected
    assert seeds(tmp_path) == sorted(expected)


def test_reader_overtaken_by_a_merge_misses_nothing(tmp_path, monkeypatch):
    write_rows(tmp_path, range(5))
    read = Path.read_bytes

    def merge_first(path):
        monkeypatch.undo()
        merge(tmp_path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", merge_first)
    assert sorted(accuracies(tmp_path)) == list(range(5))


def test_merging_again_changes_nothing(tmp_path):
    assert merge(tmp_path / "absent").path is None
    assert str(merge(tmp_path)) == "nothing to merge: no rows"
    write_rows(tmp_path, range(5))
    first = merge(tmp_path)
    assert (first.rows, first.files, first.replaced) == (5, 5, 0)
    second = merge(tmp_path)
    assert (second.path, second.rows, second.files) == (first.path, 5, 0)


def test_a_row_is_found_at_every_moment_of_a_merge(tmp_path):
    """A runner that asks for a run's row while merges go on never misses it."""
    folder = ResultsFolder(tmp_path)
    stored = [make_row(i) for i in range(12)]
    for one in stored:
        folder.write(one)
    done = threading.Event()

    def merge():
        while not done.is_set():
            ResultsFolder(tmp_path).merge()
            for one in stored[:4]:
                ResultsFolder(tmp_path).write(one)

    thread = threading.Thread(target=merge)
    thread.start()
    try:
        for _ in range(30):
            for one in stored:
                found = folder.latest(one["key"], one["environment"], one["threads"])
                assert found is not None
                assert found["status"] == one["status"]
    finally:
        done.set()
        thread.join()
