"""Describe the machine and the software versions on which a run was timed.

Times are compared only within one environment. The id of an environment covers everything that
changes the speed of code. The id does not depend on the host's name, on kbench's version and commit
(which rows have), or on anything that changes from run to run. Versions are read from metadata.
"""

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "joblib", "threadpoolctl"),
    *("scikit-learn-intelex", "torch"),
)

# Environment variables that make Python or compiled code slower, beside all of numba's except
# `_HARMLESS`. OpenBLAS's variables are left out: they are set once for a computer, not for single
# commands, and the runner sets the number of threads itself.
_SLOWING = ("PYTHONDEVMODE", "PYTHONMALLOC", "PYTHONTRACEMALLOC", "MALLOC_PERTURB_")
_HARMLESS = frozenset(
    f"NUMBA_{name}"
    for name in ("CACHE_DIR", "NUM_THREADS", "THREADING_LAYER", "COLOR_SCHEME", "DEBUG_CACHE")
)

# Parts of the description that do not change the id: a security update of the operating system's
# kernel does not make a new environment.
_NOT_IN_ID = ("kernel",)

_ROOT = Path(__file__).resolve().parents[3]


def describe() -> dict[str, Any]:
    """Describe this machine; a value that cannot be determined is None.

    A further entry changes the id of every environment, unless `_NOT_IN_ID` has it, so that all
    stored runs count as missing.
    """
    import psutil

    variables = " ".join(
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if value and (name in _SLOWING or (name.startswith("NUMBA_") and name not in _HARMLESS))
    )
    return {
        "cpu": _cpu_model(),
        "simd": _simd(),  # the widest set of vector instructions
        "cores": psutil.cpu_count(logical=False),
        "logical_cpus": psutil.cpu_count(logical=True),
        "ram_gib": round(psutil.virtual_memory().total / 2**30),
        "os": _os_name(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "blas": _numpy_blas(),  # the BLAS with which NumPy was built
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        **({"variables": variables} if variables else {}),
    }


def environment_id(env: Mapping[str, Any]) -> str:
    """The id, of eight hexadecimal digits, of an environment `env` from `describe`."""
    stable = {name: value for name, value in env.items() if name not in _NOT_IN_ID}
    text = json.dumps(stable, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Provenance:
    """The machine and the code of a run, from `describe` and `source_state`."""

    environment: Mapping[str, Any]
    version: str
    commit: str | None
    dirty: bool | None

    @property
    def environment_id(self) -> str:
        return environment_id(self.environment)


@functools.cache
def provenance() -> Provenance:
    """This machine and this code; determined once per process."""
    return Provenance(describe(), *source_state())


def source_state(root: Path = _ROOT) -> tuple[str, str | None, bool | None]:
    """kbench's version, its commit, and whether the code differs from the commit.

    The last two are None unless `root` is the top of a git checkout and git is installed. Only
    differences of code and configs count, because every run changes the results.
    """
    from kbench import __version__

    if not (root / ".git").exists():
        return __version__, None, None
    git = "git", "-C", str(root)
    commit = _output(*git, "rev-parse", "HEAD")
    code = "kbench", "configs", "pyproject.toml"
    changes = _output(*git, "status", "--porcelain", "--", *code)
    return __version__, commit, None if changes is None else bool(changes)


def _cpuinfo(names: str) -> str:
    """The first value in /proc/cpuinfo whose name matches `names`; empty if none does."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        if match := re.search(rf"^(?:{names})[ \t]*:[ \t]*(\S.*)$", text, re.M):
            return match[1].strip()
    return ""


def _cpu_model() -> str | None:
    if model := _cpuinfo("model name|Model"):
        return model
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string")
    return platform.processor() or None


def _simd() -> str | None:
    flags = _cpuinfo("flags|Features").split()
    for name in ("avx512f", "avx2", "avx", "sve", "asimd"):
        if name in flags:
            return name
    return "asimd" if platform.machine() == "arm64" else None


def _os_name() -> str:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return platform.system()


def _numpy_blas() -> str | None:
    """Name and version of BLAS in NumPy's build record, which is read without an import."""
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        return None
    with contextlib.suppress(OSError):
        record = Path(spec.origin).with_name("__config__.py").read_text()
        match = re.search(r'"blas":\s*\{(.*?)\}', record, re.S)
        fields = dict(re.findall(r'"(name|version)":\s*"([^"]*)"', match[1])) if match else {}
        return " ".join(fields[part] for part in ("name", "version") if part in fields) or None
    return None


def _version(package: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _output(*command: str) -> str | None:
    """Standard output of `command`; None if it is absent, fails or takes over 10 s (a guard)."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return completed.stdout.strip()
