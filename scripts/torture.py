"""Kill runners, guards, workers and fork servers of kbench at random, then check what is left.

    python scripts/torture.py --kills 500 --seconds 3600 --seed 0

Two to four runners share one results folder and do the same sweep, while one loop merges it and
another reports on it. At random moments a random process of one of them is killed, or a runner
finds the disk full (a limit on the size of files). In the end a last runner completes the sweep,
and an oracle checks that every run has exactly one row, that all rows are ok, that every file can
be read, and that no process and no temporary folder is left. Exit code 0 if all of it holds.
"""

import argparse
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

RUNS = 40
SWEEP = ["-m", "method=dummy,knn", f"seed=range(0,{RUNS // 2})", "dataset=digits"]
# Commands that run beside the sweep, each at the probability that its place in the list gives.
BESIDE = (
    ["merge"],
    ["report", "format=csv"],
    ["data", "prepare", "digits"],
    ["tune", "method=knn", "dataset=digits", "method.n_neighbors=1,5", "folds=2"],
)
FULL_DISK_BYTES = 4_000  # smaller than most files of rows


class Arena:
    """A working directory, its temporary folder and the commands that run in it."""

    def __init__(self, seed: int) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="torture-"))
        self.tmp = self.home / "tmp"
        self.tmp.mkdir()
        self.random = random.Random(seed)
        self.running: list[subprocess.Popen[bytes]] = []
        self.killed: Counter[str] = Counter()

    def start(self, words: list[str], *, full_disk: bool = False) -> None:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_DISK_BYTES, FULL_DISK_BYTES))

        command = [sys.executable, "-m", "kbench", *words]
        log = (self.home / "log.txt").open("ab")
        with log:
            self.running.append(
                subprocess.Popen(
                    command,
                    cwd=self.home,
                    env=os.environ | {"TMPDIR": str(self.tmp)},
                    stdout=log,
                    stderr=log,
                    preexec_fn=limit if full_disk else None,
                )
            )

    def keep_busy(self) -> None:
        """Two to four commands at a time, most of them runners of the sweep."""
        self.running = [process for process in self.running if process.poll() is None]
        while len(self.running) < self.random.randint(2, 4):
            if self.random.random() < 0.7:
                again = ["rerun=all"] if self.random.random() < 0.3 else []
                self.start([*SWEEP, *again], full_disk=self.random.random() < 0.1)
            else:
                self.start(self.random.choice(BESIDE))

    def kill_one(self) -> None:
        """SIGKILL to a random process of any command."""
        victims = self.processes()
        if victims:
            victim = self.random.choice(victims)
            kind = self._kind(victim)
            try:
                victim.kill()
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
        runners = {child.pid for child in self.running}
        try:
            if process.pid in runners:
                return "runner"
            if process.ppid() in runners:
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
        self.start([*SWEEP, "rerun=failed"])
        self.running[0].wait()
        self.start(["merge"])
        self.running[1].wait()

    def complaints(self) -> list[str]:
        """What the oracle finds wrong."""
        wrong = []
        rows = []
        for path in (self.home / "results").rglob("*.parquet"):
            try:
                table = pq.read_table(path)
            except Exception as error:
                wrong.append(f"{path.name} cannot be read: {error}")
                continue
            if path.parent.name == "results":
                rows += table.select(["key", "environment", "threads", "status"]).to_pylist()
        keys = Counter((row["key"], row["environment"], row["threads"]) for row in rows)
        if len(keys) != RUNS:
            wrong.append(f"{len(keys)} runs have a row, should be {RUNS}")
        wrong += [f"run {key[0][:8]} has {n} rows" for key, n in keys.items() if n > 1]
        statuses = Counter(row["status"] for row in rows)
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


def torture(kills: int, seconds: float, seed: int) -> int:
    """Kill until either bound is reached; print and return the number of complaints."""
    arena = Arena(seed)
    arena.start(["data", "prepare", "digits"])
    end = time.monotonic() + seconds
    while arena.killed.total() < kills and time.monotonic() < end:
        arena.keep_busy()
        time.sleep(arena.random.uniform(0.0, 1.5))
        arena.kill_one()
    arena.finish()
    wrong = arena.complaints()
    print(f"seed {seed}: {arena.killed.total()} kills {dict(arena.killed)}")
    for line in wrong:
        print(f"  {line}")
    if wrong:
        print(f"kept for inspection: {arena.home}")
    else:
        print("  every run has one row, nothing is left")
        shutil.rmtree(arena.home)
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    return 1 if torture(options.kills, options.seconds, options.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
