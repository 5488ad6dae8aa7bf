"""kbench doctor: describe this machine, and try which limits of runs work here.

The command prints CPU, memory, Python and package versions, BLAS and its threads, optional extras,
and the folders that are read and written; it tries a worker and limits (wall_s, cpu_s, memory_mb).

kbench doctor --compile [METHOD ...]: compile the named methods, or all methods of kbench, in
advance, so that first runs do not compile.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kbench.commands.arguments import parse_words
from kbench.errors import ConfigError
from kbench.mistyped import nearest

KEYS = ("results_dir", "datasets_dir")
FLAGS = WORDS = ("--compile",)
# Optional extra of the package -> a module that it installs.
EXTRAS = {extra: extra for extra in ("mlflow", "optuna", "ray", "torch", "xrfm")}
EXTRAS |= {"dask": "distributed", "intelex": "sklearnex", "models": "skops", "slurm": "submitit"}
# Limits that are tried: wall or CPU seconds, MiB, and seconds in which a worker has to start, which
# are also the seconds of `_sleep`. Low limits keep the command short. Set by hand.
_LIMIT_S, _LIMIT_MB, _SETUP_S = 0.2, 64.0, 60.0


def main(argv: Sequence[str]) -> int:
    """Print the report; exit code 1 if a limit does not work or a folder cannot be written."""
    from kbench.run.results.environment import describe, environment_id

    if "--compile" in argv:
        return _compile([word for word in argv if word != "--compile"])
    words, values = parse_words(argv, KEYS, flags=FLAGS)
    if words:
        raise ConfigError(f"kbench doctor takes no {words[0]!r}{nearest(words[0], FLAGS)}")
    environment = describe()
    print(f"environment {environment_id(environment)}")
    _print_nested(environment)
    print("BLAS and OpenMP")
    for pool in _thread_pools():
        print(f"  {pool}")
    print("extras")
    for extra, package in sorted(EXTRAS.items()):
        state = "installed" if find_spec(package) else f"absent: pip install 'kbench[{extra}]'"
        print(f"  {extra:12} {state}")
    is_healthy = _print_folders(values)
    print("limits")
    for name, is_effective, detail in _tried_limits():
        is_healthy &= is_effective
        print(f"  {name:12} {'works' if is_effective else 'DOES NOT WORK'} ({detail})")
    return 0 if is_healthy else 1


def _compile(argv: Sequence[str]) -> int:
    from kbench.commands.compiling import cache_folder, compile_methods, progress_lines

    print(f"compiled code is kept in {cache_folder()}")
    with progress_lines() as show:
        return 0 if compile_methods(argv, show) else 1


def _print_nested(values: dict[str, Any], indent: str = "  ") -> None:
    for name, value in values.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            _print_nested(value, indent + "  ")
        else:
            print(f"{indent}{name:16} {value}")


def _thread_pools() -> list[str]:
    import numpy  # noqa: F401  loads the BLAS that is listed
    from threadpoolctl import threadpool_info

    return [
        f"{pool['internal_api']} {pool.get('version') or ''} "
        f"{pool.get('architecture') or ''} threads={pool['num_threads']}"
        for pool in threadpool_info()
    ]


def _print_folders(values: dict[str, str]) -> bool:
    from kbench.config import roots
    from kbench.data import Folders

    folders = Folders.from_environment(values.get("datasets_dir", "datasets"))
    print("folders")
    for root in roots():
        print(f"  configs      {root}")
    for folder in folders.read_only:
        state = "" if folder.is_dir() else " (is not there)"
        print(f"  KBENCH_DATA  {folder}{state}")
    is_healthy = True
    for name, path in (
        ("datasets", folders.own),
        ("results", Path(values.get("results_dir", "results"))),
    ):
        existing = next(p for p in [path.absolute(), *path.absolute().parents] if p.exists())
        is_writable = os.access(existing, os.W_OK | os.X_OK)
        is_healthy &= is_writable
        print(f"  {name:12} {path} {'writable' if is_writable else f'NOT WRITABLE: {existing}'}")
    return is_healthy


def _take_memory(task: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    """Reserve memory, 1 MiB at a time, until the limit ends the process."""
    buffers = []
    while True:
        buffers.append(bytearray(os.urandom(1 << 16)) * 16)


def _use_cpu(task: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    send({"event": "start"})
    while True:
        pass


def _sleep(task: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    send({"event": "start"})
    time.sleep(_SETUP_S)


def _succeed(task: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    send({"event": "result", "status": "ok"})


def _tried_limits() -> list[tuple[str, bool, str]]:
    """The name of each check, whether its worker ended as expected, and status and seconds."""
    from kbench.run.execution.sandbox import Sandbox
    from kbench.settings import Limits

    limits = Limits(wall_s=None, setup_s=_SETUP_S)
    sandbox = Sandbox(["kbench.commands.doctor"])
    checks: tuple[tuple[str, Any, dict[str, Any], set[str]], ...] = (
        ("worker", _succeed, {}, {"ok"}),
        ("wall_s", _sleep, {"wall_s": _LIMIT_S}, {"timeout"}),
        ("cpu_s", _use_cpu, {"cpu_s": _LIMIT_S}, {"timeout"}),
        ("memory_mb", _take_memory, {"memory_mb": _LIMIT_MB}, {"memory"}),
    )
    results = []
    for name, function, limit, expected in checks:
        began = time.perf_counter()
        outcome = sandbox.start(function, {}, replace(limits, **limit)).outcome()
        seconds = time.perf_counter() - began
        is_effective = outcome.status in expected
        results.append((name, is_effective, f"{outcome.status} after {seconds:.2f} s"))
    if sys.platform == "darwin":
        results.append(
            ("threads", True, "no CPU affinity on macOS: only the libraries limit their threads")
        )
    return results
