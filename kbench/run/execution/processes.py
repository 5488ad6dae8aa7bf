"""Memory and CPU time of a tree of processes, read so cheaply that it can be done every 50 ms.

On Linux the values come from /proc, elsewhere from psutil, which has only resident memory: it also
counts pages of mapped files.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from kbench.process_memory import LINUX, status_kib

# Options of prctl(2).
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends; has no effect outside Linux."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends; has no effect outside Linux."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


@cache
def _has_children_file() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def descendants(pid: int) -> list[int]:
    """Process ids of all descendants of `pid`, parents before children."""
    pids: list[int] = []
    if _has_children_file():
        todo = [pid]
        while todo:
            parent = todo.pop()
            children: list[int] = []
            try:
                for thread in os.listdir(f"/proc/{parent}/task"):
                    with open(f"/proc/{parent}/task/{thread}/children") as file:
                        children += [int(child) for child in file.read().split()]
            except OSError:
                continue
            pids += children
            todo += children
        return pids
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def held_bytes(pids: Iterable[int]) -> int:
    """Sum of the private and shared-memory bytes, without pages of mapped files."""
    if LINUX:
        return sum(
            sum(status_kib(pid, "RssAnon", "RssShmem", "VmSwap").values()) << 10 for pid in pids
        )
    return int(_sum(pids, lambda process: process.memory_info().rss))


def cpu_seconds(pids: Iterable[int]) -> float:
    """Sum of the user and system seconds so far, including children that have been waited for."""
    if LINUX:
        total = 0.0
        tick = os.sysconf("SC_CLK_TCK")
        for pid in pids:
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()  # after the command's name
            except OSError:
                continue
            # utime, stime, cutime and cstime
            total += sum(int(value) for value in fields[11:15]) / tick
        return total
    return _sum(pids, lambda process: sum(process.cpu_times()[:2]))


def _sum(pids: Iterable[int], quantity: Callable[[Any], float]) -> float:
    """Sum of a quantity over psutil's objects of the processes that have not ended."""
    import psutil

    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            total += quantity(psutil.Process(pid))
    return total


def busy_seconds() -> float:
    """Seconds so far in which processors of this machine were not idle, summed over processors.

    On a virtual machine the sum includes seconds that the host gave to other machines ("steal").
    """
    if LINUX:
        with open("/proc/stat") as file:
            # The fields are user, nice, system, idle, iowait, irq, softirq and steal. The seconds
            # of guests, which follow, are part of user and nice.
            fields = [int(value) for value in file.readline().split()[1:9]]
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    import psutil

    times = psutil.cpu_times()
    return sum(times) - times.idle


def kill_descendants(pid: int) -> None:
    """Kill and reap all descendants of `pid`, which has to be the caller.

    A process that forks while it is being killed leaves an orphan that the caller adopts, so the
    tree is read again until the caller has no child.
    """
    while True:
        for child in descendants(pid):
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)  # guard against a busy loop


class PeakMemory:
    """Growth of this process's peak resident memory in a `with` block, as the kernel records it.

    Freed memory that the allocator holds is returned to the system first, because the block could
    otherwise use it without growth. If the kernel's record cannot be reset (no /proc), `bytes` is
    the growth of the peak since the start of the process.
    """

    def __enter__(self) -> "PeakMemory":
        with contextlib.suppress(AttributeError):  # only glibc has malloc_trim
            ctypes.CDLL(None).malloc_trim(0)
        self.exact = False
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # 5 resets the peak, VmHWM
            self.exact = True
        self._before = self._now("VmRSS") if self.exact else self._highest()
        self.bytes = 0
        return self

    def __exit__(self, *_: object) -> None:
        after = self._now("VmHWM") if self.exact else self._highest()
        self.bytes = max(0, after - self._before)

    @staticmethod
    def _now(name: str) -> int:
        return status_kib(os.getpid(), name)[name] << 10

    @staticmethod
    def _highest() -> int:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024  # bytes per unit of ru_maxrss
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
