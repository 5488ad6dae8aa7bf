"""Parsers of other projects, run in a child process so that a damaged file cannot end kbench.

SciPy's reader of MATLAB files dies with a segmentation fault on some damaged files, and a small
archive can unpack to more than the machine's memory. So a format whose `Format.guarded` is true is
read by a fresh Python process whose memory is limited (RLIMIT_DATA). Request and answer lie in a
folder: JSON, and the arrays as .npy files, which the caller maps. Nothing is pickled, so a child
that a file has taken control of can only hand over numbers and texts. A child that dies becomes one
DataError that names the file.

    python -m kbench.data.formats.guarded FOLDER
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data import formats
from kbench.data.formats import PartRows
from kbench.errors import ConfigError, DataError
from kbench.files import mapped
from kbench.process_memory import limit_memory, machine_bytes

_REQUEST, _ANSWER = "request.json", "answer.json"
_CSR = ("data", "indices", "indptr")


def read(
    name: str,
    parts: Mapping[str, list[Path]],
    source: Mapping[str, Any],
    task: str,
    target_range: Sequence[float] | None,
    folder: Path,
    *,
    memory_mb: float | None = None,
    start: Callable[[Path], int] | None = None,
) -> dict[str, PartRows]:
    """`kbench.data.formats.read` in a child process; the arrays are read-only memory maps.

    name, parts, source, task, target_range : As of `kbench.data.formats.read`
    folder : Is made, and keeps the arrays until the caller deletes it
    memory_mb : What the child may allocate beyond its libraries, in MiB. By default the machine's
        memory.
    start : Runs `answer(folder)` in another process and returns its exit code, negative for a
        signal. By default a fresh Python process, which costs about 0.2 s plus the parser's import.

    Raises DataError, ConfigError: what the reader raised; or the child died, by the file or by the
    memory limit.
    """
    folder.mkdir()
    request = {
        "name": name,
        "parts": {part: [str(path.absolute()) for path in paths] for part, paths in parts.items()},
        "source": source,
        "task": task,
        "target_range": target_range,
        "memory_mb": memory_mb,
    }
    (folder / _REQUEST).write_text(json.dumps(request))
    code = (start or _start)(folder)
    try:
        reply = json.loads((folder / _ANSWER).read_bytes())
    except (OSError, ValueError):
        files = " and ".join(str(path) for paths in parts.values() for path in paths)
        raise DataError(
            f"{files}: the reader of format {name} died ({_ending(code)}); the file is damaged, or "
            "larger than the memory allowed"
        ) from None
    if "error" in reply:
        raise (ConfigError if reply["kind"] == "ConfigError" else DataError)(reply["error"])
    return {part: _opened(folder, part, described) for part, described in reply["parts"].items()}


def answer(folder: Path) -> None:
    """In the child: read what the request names; write the arrays, or the error, to `folder`."""
    request = json.loads((folder / _REQUEST).read_bytes())
    memory_mb = request["memory_mb"]
    limit_memory(machine_bytes() if memory_mb is None else int(memory_mb * 2**20))
    parts = {part: [Path(path) for path in paths] for part, paths in request["parts"].items()}
    reply: dict[str, Any]
    first = next(path for paths in parts.values() for path in paths)
    try:
        # Each reader names its file; this catches what the code around the parser meets.
        with formats.parsing(first, f"a file of format {request['name']}"):
            rows_by_part = formats.read(
                request["name"],
                parts,
                request["source"],
                request["task"],
                request["target_range"],
                folder,
            )
            reply = {
                "parts": {part: _write(folder, part, rows) for part, rows in rows_by_part.items()}
            }
    except (ConfigError, DataError) as error:
        reply = {"error": str(error), "kind": type(error).__name__}
    (folder / _ANSWER).write_text(json.dumps(reply))


def _start(folder: Path) -> int:
    """Run `answer(folder)` in a fresh Python process; its exit code.

    A process of its own rather than multiprocessing's: those import the caller's main module.
    """
    import kbench

    paths = [str(Path(kbench.__file__).absolute().parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        # pyarrow's own allocator reserves 1 GiB at the first allocation, which counts as data.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kbench.data.formats.guarded", str(folder.absolute())],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


def _write(folder: Path, part: str, rows: PartRows) -> dict[str, Any]:
    """Write the arrays of a part that its reader has not written; what describes them beside."""
    dense = isinstance(rows.X, np.ndarray)
    arrays = {"X": rows.X} if dense else {name: getattr(rows.X, name) for name in _CSR}
    if formats.features_file(folder, part).exists():
        del arrays["X"]
    arrays |= {"y": rows.y} if rows.groups is None else {"y": rows.y, "groups": rows.groups}
    for name, array in arrays.items():
        np.save(folder / f"{part}.{name}.npy", np.asarray(array, order="C"), allow_pickle=False)
    return {
        "shape": rows.X.shape,
        "dense": dense,
        "labels": rows.labels,
        "layout": rows.layout,
        "grouped": rows.groups is not None,
        "notes": rows.notes,
        "n_without_target": rows.n_without_target,
    }


def _opened(folder: Path, part: str, described: Mapping[str, Any]) -> PartRows:
    def array(name: str) -> np.ndarray:
        return mapped(folder / f"{part}.{name}.npy")

    X: Any
    if described["dense"]:
        X = array("X")
    else:
        from scipy.sparse import csr_matrix

        shape = tuple(described["shape"])
        X = csr_matrix(tuple(array(name) for name in _CSR), shape=shape, copy=False)
    labels = described["labels"]
    return PartRows(
        X,
        array("y"),
        None if labels is None else tuple(labels),
        None,
        described["layout"],
        array("groups") if described["grouped"] else None,
        tuple(described["notes"]),
        described["n_without_target"],
    )


def _ending(code: int) -> str:
    """How a process ended, in words: `SIGSEGV`, `exit code 1`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


if __name__ == "__main__":
    answer(Path(sys.argv[1]))
