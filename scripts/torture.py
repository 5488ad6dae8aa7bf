"""Kill runners, guards, workers and fork servers of kbench at random, then check what is left.

    python scripts/torture.py --kills 500 --seconds 3600 --seed 0 [--quota 16] [--pause 6]

Two to four commands work at a time in one folder: most of them runners of the same sweep, the
others merge, report, predict, tune, or prepare a data set. At random moments one of their processes
is killed: first its kind is drawn (runner, fork server, guard, worker or another command), then the
process. Some runners find the disk full, by a limit on the size of files; with `--quota`, for which
one has to be root, the results lie in a file system of a few MiB, which is full at times. Some
runners have a clock that jumps by two days while they run, by `jumping_clock.c`; if there is no C
compiler, a line says that clocks were not tested. In the end a last runner completes the sweep, and
an oracle checks that every attempt has one row, that the last attempt of every run is ok, that
every file can be read, that the model of the predictions is unchanged, and that no process and no
temporary folder is left. Exit code 0 if all of it holds.
"""

import argparse
import contextlib
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from kbench.run.results.rows import IDENTITY, RUN

RUNS = 40  # of the sweep
PAUSE = 1.5  # seconds between two kills at most; on a busy machine more, so that workers are met
# The model that `predict` applies, in a results folder that no other command writes to.
KEPT = ["method=krr", "dataset=breast_cancer", "keep_model=true", "results_dir=kept"]
FULL_DISK_BYTES = 4_000  # smaller than most files of rows
CLOCKS = (0, -2 * 86_400, 2 * 86_400)  # seconds by which a clock is wrong


def jumping_clock(folder: Path) -> Path | None:
    """Compile `jumping_clock.c`; None without a C compiler."""
    library = folder / "jumping_clock.so"
    source = Path(__file__).with_name("jumping_clock.c")
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


class Arena:
    """A working directory, its temporary folder and the commands that run in it."""

    def __init__(self, seed: int, quota: int | None, runs: int) -> None:
        self.runs = runs
        seeds = f"seed=range(0,{runs // 2})"
        self.sweep = ["-m", "method=dummy,mlp", seeds, "dataset=digits"]
        self.home = Path(tempfile.mkdtemp(prefix="torture-"))
        self.results = self.home / "results"
        self.ballast = self.results / ".ballast"
        self.quota = quota
        if quota is not None:
            self.results.mkdir()
            options = ["-t", "tmpfs", "-o", f"size={quota}m", "tmpfs"]
            subprocess.run(["mount", *options, self.results], check=True)
        self.tmp = self.home / "tmp"
        self.tmp.mkdir()
        self.random = random.Random(seed)
        self.running: list[subprocess.Popen[bytes]] = []
        self.names: dict[int, str] = {}  # process id of a command -> what it is
        self.killed: Counter[str] = Counter()
        self.full = 0  # how often the quota was used up
        self.clock = jumping_clock(self.home)
        self.jumps = 0

    def start(
        self, words: list[str], *, full_disk: bool = False, jumps: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a kbench command, if asked on a full disk or with a clock that jumps."""

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_DISK_BYTES, FULL_DISK_BYTES))

        env = os.environ | {"TMPDIR": str(self.tmp)}
        if jumps:
            env |= {"LD_PRELOAD": str(self.clock), "JUMPING_CLOCK": str(self.home / "seconds")}
        with (self.home / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "kbench", *words],
                cwd=self.home,
                env=env,
                stdout=log,
                stderr=log,
                preexec_fn=limit if full_disk else None,
            )
        self.running.append(process)
        self.names[process.pid] = words[0] if words[0].isalpha() else "runner"
        return process

    def prepare(self) -> None:
        """Prepare the data set and fit the model that the commands use."""
        for words in (["data", "prepare", "digits"], KEPT):
            if self.start(words).wait():
                raise RuntimeError((self.home / "log.txt").read_text())
        self.model = next((self.home / "kept" / "_models").glob("*.npz"))
        self.model_bytes = self.model.read_bytes()

    def keep_busy(self) -> None:
        """Start commands until two to four run, most of them runners of the sweep."""
        self.running = [process for process in self.running if process.poll() is None]
        while len(self.running) < self.random.randint(2, 4):
            if self.random.random() < 0.6:
                again = ["rerun=all"] if self.random.random() < 0.3 else []
                self.start(
                    [*self.sweep, *again],
                    full_disk=self.random.random() < 0.1,
                    jumps=self.clock is not None and self.random.random() < 0.3,
                )
            else:
                self.start(self.random.choice(self.other_commands()))

    def other_commands(self) -> list[list[str]]:
        """Commands that run beside the sweep."""
        split = f"dataset.split.seed={self.random.randrange(10**6)}"  # prepares the arrays anew
        return [
            ["merge"],
            ["report", "format=csv"],
            ["report", "pages"],
            ["predict", f"model={self.model}", "dataset=breast_cancer", "out=predicted.csv"],
            ["method=dummy", "dataset=digits", split, "results_dir=prepared_anew"],
            ["tune", "method=knn", "dataset=digits", "method.n_neighbors=1,5", "tune.cv=2"],
        ]

    def disturb(self) -> None:
        """At times: set the clock, fill the quota, or free it."""
        if self.clock is not None and self.random.random() < 0.3:
            (self.home / "seconds").write_text(str(self.random.choice(CLOCKS)))
            self.jumps += 1
        if self.ballast.exists():
            if self.random.random() < 0.5:
                self.ballast.unlink()
        elif self.quota is not None and self.random.random() < 0.1:
            self.full += 1
            with contextlib.suppress(OSError):  # what fits stays, so that the file system is full
                self.ballast.write_bytes(bytes(self.quota << 20))

    def kill_one(self) -> None:
        """SIGKILL to a process of a random kind."""
        victims: dict[str, list[psutil.Process]] = {}
        for process in self.processes():
            victims.setdefault(self._kind(process), []).append(process)
        victims.pop("gone", None)
        if victims:
            kind = self.random.choice(sorted(victims))
            try:
                self.random.choice(victims[kind]).kill()
                self.killed[kind] += 1
            except psutil.Error:
                pass

    def processes(self) -> list[psutil.Process]:
        """Every process that works in this arena."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.cwd() == str(self.home):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def _kind(self, process: psutil.Process) -> str:
        commands = {child.pid for child in self.running}
        try:
            if process.pid in commands:
                return self.names[process.pid]
            if process.ppid() in commands:
                return "fork server"
            return "guard" if os.getsid(process.pid) == process.pid else "worker"
        except (psutil.Error, OSError):
            return "gone"

    def finish(self) -> None:
        """End what runs, and complete the sweep undisturbed."""
        for process in self.running:
            process.kill()
            process.wait()
        deadline = time.monotonic() + 30
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.running = []
        self.ballast.unlink(missing_ok=True)
        self.start([*self.sweep, "rerun=failed"]).wait()
        self.start(["merge"]).wait()

    def complaints(self) -> list[str]:
        """One line for each thing that the oracle finds wrong."""
        wrong = []
        rows = []
        if self.model.read_bytes() != self.model_bytes:
            wrong.append(f"{self.model.name} has changed")
        for path in (self.home / "results").rglob("*.parquet"):
            try:
                table = pq.read_table(path)
            except Exception as error:
                wrong.append(f"{path.name} cannot be read: {error}")
                continue
            if path.parent.name == "results":
                rows += table.select([*IDENTITY, "status"]).to_pylist()
        attempts = Counter(tuple(row[name] for name in IDENTITY) for row in rows)
        wrong += [
            f"attempt {attempt[-1]} of run {attempt[0][:8]} has {n} rows"
            for attempt, n in attempts.items()
            if n > 1
        ]
        rows.sort(key=lambda row: row["attempt"])
        last = {tuple(row[name] for name in RUN): row["status"] for row in rows}
        if len(last) != self.runs:
            wrong.append(f"{len(last)} runs have a row, should be {self.runs}")
        statuses = Counter(last.values())
        if set(statuses) - {"ok"}:
            wrong.append(f"statuses {dict(statuses)}, should all be ok")
        deadline = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        wrong += [f"process {process.pid} is left" for process in left]
        wrong += [f"{path.name} is left in the temporary folder" for path in self.tmp.iterdir()]
        if "Traceback" in (self.home / "log.txt").read_text(errors="replace"):
            wrong.append(f"a traceback in {self.home / 'log.txt'}")
        return wrong

    def remove(self) -> None:
        """Delete everything."""
        if self.quota is not None:
            subprocess.run(["umount", self.results], check=True)
        shutil.rmtree(self.home)


def torture(
    kills: int,
    seconds: float,
    seed: int,
    *,
    quota: int | None = None,
    pause: float = PAUSE,
    runs: int = RUNS,
) -> int:
    """Kill until either bound is reached; print and return the number of complaints."""
    arena = Arena(seed, quota, runs)
    arena.prepare()
    end = time.monotonic() + seconds
    while arena.killed.total() < kills and time.monotonic() < end:
        arena.keep_busy()
        arena.disturb()
        time.sleep(arena.random.uniform(0.0, pause))
        arena.kill_one()
    arena.finish()
    wrong = arena.complaints()
    print(f"seed {seed}: {arena.killed.total()} kills {dict(arena.killed)}")
    print(f"  clocks jumped {arena.jumps} times, the quota was full {arena.full} times")
    if arena.clock is None:
        print("  clocks were not tested: no C compiler")
    for line in wrong:
        print(f"  {line}")
    if wrong:
        print(f"kept for inspection: {arena.home}")
    else:
        print("  every run has one row, nothing is left")
        arena.remove()
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=3600.0, help="of killing, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=PAUSE, help="seconds before a kill, at most")
    parser.add_argument("--quota", type=int, help="MiB for the results; one has to be root")
    options = parser.parse_args()
    wrong = torture(
        options.kills,
        options.seconds,
        options.seed,
        quota=options.quota,
        pause=options.pause,
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
