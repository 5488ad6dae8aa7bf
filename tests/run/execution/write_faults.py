"""Every write of kbench fails once at every step: prints what is wrong afterwards, as JSON.

    PYTHONPATH=tests/run/results:tests/data python tests/run/execution/write_faults.py EMPTY_FOLDER

Each operation of `OPERATIONS` runs in forked children, on a copy of a results folder with finished
rows. In a child the functions that change files count their calls (open for writing, write, fsync,
rename, replace, link, unlink, rmdir, mkdir). At the n-th call

    full    the disk is full: half of the bytes are written, and every later write fails (ENOSPC)
    broken  this one call fails (EIO)
    killed  half of the bytes are written and the process gets SIGKILL, or gets it before the call

and n = 0, 1, 2, ... until an operation ends before its n-th call. A kill after a call is the same
as a kill before the next one. Afterwards `complaints` must find nothing, and the operation must
succeed when it is repeated.
"""

import builtins
import errno
import gc
import io
import json
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
from result_rows import make_row
from support import libsvm_text, one_file

from kbench.data import Folders, open_prepared, prepare
from kbench.errors import KbenchError
from kbench.methods import KernelRidge
from kbench.methods.out_of_core.checkpoint import Checkpoint
from kbench.prediction import load_model, save_model
from kbench.run.execution.reservations import Reservations
from kbench.run.planning.tuned_files import write_tuned
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.merge import merge

CURVES = [{"curve": "objective", "x_name": "seconds", "x": [0.0, 1.0], "value": [2.0, 1.0]}]
FITTED = KernelRidge().fit(np.eye(4), np.arange(4.0))
NEW = "fedcba9876543210"
DONE, REFUSED, OTHER = 0, 3, 4  # exit codes of a child


class Faults:
    """Wraps the functions of this process that change files, and fails at the n-th call."""

    def __init__(self, kind, at):
        self.kind, self.at, self.calls = kind, at, -1
        self._open = io.open
        for name in ("rename", "replace", "link", "unlink", "remove", "rmdir", "mkdir", "fsync"):
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        os_open = os.open

        def checked(path, flags, *args, **kwargs):
            if flags & os.O_CREAT:
                self.step("open")
            return os_open(path, flags, *args, **kwargs)

        os.open = checked
        io.open = builtins.open = self.open

    def _wrapped(self, name, function):
        def checked(*args, **kwargs):
            self.step(name)
            return function(*args, **kwargs)

        return checked

    def step(self, name, half=lambda: None):
        self.calls += 1
        creates = name in ("open", "write", "mkdir")
        if self.calls == self.at or (self.kind == "full" and self.calls > self.at and creates):
            half()
            if self.kind == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.kind == "broken" or creates:
                code = errno.EIO if self.kind == "broken" else errno.ENOSPC
                raise OSError(code, os.strerror(code))

    def open(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, **more):
        if not set(mode) & set("wxa+"):
            return self._open(file, mode, buffering, encoding, errors, newline, **more)
        self.step("open")
        faults = self

        class Raw(io.FileIO):
            def write(self, data):
                bytes_ = memoryview(data).cast("B")
                faults.step("write", lambda: io.FileIO.write(self, bytes_[: len(bytes_) // 2]))
                return super().write(data)

        buffered = io.BufferedWriter(Raw(file, mode.replace("b", "").replace("t", "")))
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


def template(folder):
    """A working directory with three finished rows, one of which is merged, and their files."""
    results = ResultsFolder(folder / "results")
    results.write(make_row(2))
    results.merge()
    for number in range(2):
        results.write(make_row(number), CURVES)
    results.write_log(make_row(0)["key"], "what the run printed")
    results.store_environment({"cpu": "one"})
    rng = np.random.default_rng(0)
    (folder / "raw").mkdir()
    text = libsvm_text(rng.random((20, 3)).round(2), np.where(rng.random(20) < 0.5, 1, -1))
    (folder / "raw" / "toy").write_text(text)
    (folder / "state").write_text("{}")


def results():
    return ResultsFolder("results")


def folders():
    return Folders(Path("datasets").absolute(), (Path("raw").absolute(),))


def rerun(curves):
    results().write(make_row(0, accuracy=0.75, started_at=make_row(60)["started_at"]), curves)


def model():
    save_model("results/_models/model.npz", FITTED)


def checkpoint():
    Checkpoint("checkpoint.npz", 0.0, {"C": 1.0}).write({"w": np.arange(9.0)})


def take_reservation():
    reservations = Reservations(Path("results"))
    assert reservations.take(NEW)
    reservations.close()


def tuned():
    write_tuned("svc", "digits", {"C": 1.0}, {"mean": 0.5}, "kbench tune")


OPERATIONS = {
    "row": lambda: results().write(make_row(9, key=NEW), CURVES),
    "rerun": lambda: rerun(CURVES),
    "rerun_without_curves": lambda: rerun([]),
    "log": lambda: results().write_log(make_row(0)["key"], "of the second attempt\n" * 9),
    "environment": lambda: results().store_environment({"cpu": "another"}),
    "reservation": take_reservation,
    "merge": lambda: merge(Path("results")),
    "prepare": lambda: prepare(one_file(), folders(), download=False),
    "tuned_file": tuned,
    "checkpoint": checkpoint,
    "model": model,
}


def complaints(operation, kind, ended):
    """What is wrong with the working directory after an operation was disturbed."""
    wrong = []
    if ended == OTHER:
        wrong.append("raised something other than a KbenchError")
    frame = pd.read_parquet("results", columns=["key", "accuracy"])
    old = {make_row(number)["key"]: 0.5 for number in range(3)}
    lost = set(old) - set(frame["key"])
    if lost:
        wrong.append(f"pandas misses {len(lost)} finished rows")
    folder = results()
    read = folder.read().set_index("key")
    wrong += folder.warnings
    if set(old) - set(read.index) or read.index.has_duplicates:
        wrong.append(f"kbench reads {len(read)} rows: {sorted(read.index)}")
    for key, row in read.iterrows():
        allowed = {0.5, 0.75} if operation.startswith("rerun") else {0.5}
        if row["accuracy"] not in allowed:
            wrong.append(f"{key[:8]}: accuracy {row['accuracy']}")
    folder.read_curves()
    wrong += folder.warnings
    folder.warnings = []
    folder.environments()
    wrong += folder.warnings
    if (
        not Path("results/_logs", f"{make_row(0)['key']}.txt")
        .read_text()
        .endswith(("printed", "\n"))
    ):
        wrong.append("the log is torn")
    files = [path for path in Path().rglob("*") if path.is_file()]
    temporary = [path for path in files if path.name.startswith(".") or ".tmp" in path.name]
    temporary = [path for path in temporary if not path.name.endswith("lock")]
    visible = [path for path in temporary if not any(part[0] == "." for part in path.parts)]
    wrong += [f"{path} is visible" for path in visible]
    if kind == "full":
        wrong += [f"{path} is left" for path in temporary if ".claimed-" not in path.name]
    return wrong


def whole(operation):
    """What is wrong after the operation was repeated undisturbed."""
    OPERATIONS[operation]()
    read = results().read().set_index("key")["accuracy"].to_dict()
    expected = {make_row(number)["key"]: 0.5 for number in range(3)}
    if operation == "row":
        expected[NEW] = 0.5
    if operation.startswith("rerun"):
        expected[make_row(0)["key"]] = 0.75
    wrong = [] if read == expected else [f"rows {read}, should be {expected}"]
    curves = results().read_curves().groupby("key").size()
    n = {"row": 3, "rerun_without_curves": 1}.get(operation, 2)
    if len(curves) != n or set(curves) != {2}:
        wrong.append(f"curves of {len(curves)} runs, should be of {n}")
    if operation == "merge" and len(list(Path("results").glob("*.parquet"))) != 1:
        wrong.append("not merged into one file")
    if operation == "prepare":
        data = open_prepared(prepare(one_file(), folders(), download=False))
        if data.X_train.shape != (15, 3):
            wrong.append(f"prepared {data.X_train.shape}")
        if list(Path("datasets/prepared").glob("*/.*.*")):
            wrong.append("a temporary folder is left")
    if operation == "checkpoint":
        arrays = Checkpoint("checkpoint.npz", 0.0, {"C": 1.0}).read()
        if arrays is None or arrays["w"].tolist() != list(range(9)):
            wrong.append("another checkpoint")
    if operation == "model":
        load_model("results/_models/model.npz")
    return wrong


def disturb(operation, kind, at, folder, reached):
    """Run an operation in a child whose `at`-th call fails; its exit status."""
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        fd = os.open(reached, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        faults = Faults(kind, at)
        code = DONE
        try:
            OPERATIONS[operation]()
        except KbenchError:
            code = REFUSED
        except BaseException:
            traceback.print_exc()
            code = OTHER
        os.write(fd, str(faults.calls).encode())
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def walk(operation, kind, home):
    """Number of calls at which the operation was disturbed, and what was wrong after any."""
    wrong = []
    for at in range(1000):
        folder = home / f"{operation}-{kind}-{at}"
        shutil.copytree(home / "template", folder)
        ended = disturb(operation, kind, at, folder, home / "reached")
        os.chdir(folder)
        found = complaints(operation, kind, ended) + whole(operation)
        wrong += [f"call {at}: {line}" for line in found]
        shutil.rmtree(folder)
        if ended != -signal.SIGKILL and int((home / "reached").read_text()) < at:
            return at, wrong
    raise AssertionError(f"{operation}: more than 1000 calls")


def main():
    home = Path(sys.argv[1])
    for folder in (home / "template", home / "rehearsal"):
        folder.mkdir()
        template(folder)
    os.chdir(home / "rehearsal")
    for operation in OPERATIONS.values():  # imports and compiles what the children need
        operation()
    gc.freeze()  # otherwise a child copies most of the memory that it inherits
    found = {}
    for operation in OPERATIONS:
        for kind in ("full", "broken", "killed"):
            steps, wrong = walk(operation, kind, home)
            found[f"{operation}-{kind}"] = {"steps": steps, "wrong": wrong}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
