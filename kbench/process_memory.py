"""Memory of a process as Linux counts it, and the limit of memory that a process may reserve.

The worker of a run and the child that reads a foreign file use the same limit (RLIMIT_DATA).
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
                name, _, value = line.partition(":")
                if name in values:
                    values[name] = int(value.split()[0])
    except (OSError, ValueError):
        pass
    return values


def data_bytes(pid: int) -> int:
    """Bytes that count against RLIMIT_DATA, touched or not; 0 on systems other than Linux."""
    return status_kib(pid, "VmData")["VmData"] << 10 if LINUX else 0


def limit_memory(more_bytes: int | None) -> None:
    """Limit this process to `more_bytes` beyond its present memory, and forbid core dumps.

    None sets no limit of memory. An existing lower limit stays. Memory is limited only on Linux.
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
    """Bytes that this process may still reserve within its limit and the machine's memory;
    infinity on systems without /proc/meminfo.
    """
    available = float("inf")
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    available = int(line.split()[1]) << 10
    except (OSError, ValueError):
        return available
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY:
        return available
    return min(available, max(limit - data_bytes(os.getpid()), 0))
