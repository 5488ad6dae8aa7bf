"""Memory of a process as Linux counts it, and the limit of what it may reserve.

The worker of a run and the child that reads a foreign file have the same limit (RLIMIT_DATA).
"""

import os
import sys

LINUX = sys.platform.startswith("linux")


def status_kib(pid: int, *names: str) -> dict[str, int]:
    """Values in KiB of the named lines of /proc/<pid>/status; 0 for a line that is missing."""
    values = dict.fromkeys(names, 0)
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in values:
                    values[name] = int(rest.split()[0])
    except (OSError, ValueError):
        pass
    return values


def data_bytes(pid: int) -> int:
    """Bytes that count against RLIMIT_DATA, touched or not; 0 where it cannot be known."""
    return status_kib(pid, "VmData")["VmData"] << 10 if LINUX else 0


def limit_memory(more_bytes: int | None) -> None:
    """Let this process reserve at most `more_bytes` beyond what it holds now, and dump no core.

    None sets no limit of memory. An existing lower limit stays. Linux alone can limit memory.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if more_bytes is None or not LINUX:
        return
    limit = data_bytes(os.getpid()) + more_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def machine_bytes() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> float:
    """Bytes that this process may still reserve: the machine and its own limit allow them."""
    free = float("inf")
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    free = int(line.split()[1]) << 10
    except (OSError, ValueError):
        return free
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY:
        return free
    return min(free, max(limit - data_bytes(os.getpid()), 0))
