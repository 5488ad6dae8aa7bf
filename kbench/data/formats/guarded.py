"""Run parsers of other projects in a child process, so that a damaged file cannot end kbench.

SciPy's reader of MATLAB files ends with a segmentation fault on some damaged files, and a small
archive can unpack to more than the machine's memory. Files of formats with `Format.guarded` are
therefore read by a new Python process whose memory is limited (RLIMIT_DATA). Request and answer are
files in a folder: JSON, and arrays as .npy files, which the caller maps. No file is unpickled, so a
child under the control of a malicious file can return only numbers and texts. If the child is
killed, the caller raises a DataError that names the file.

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

    name, parts, source, task, target_range : As in `kbench.data.formats.read`
    folder : A folder for the arrays, which this call makes and the caller deletes
    memory_mb : Memory that the child may allocate beyond its libraries, in MiB; by default the
        machine's memory.
    start : A function that runs `answer(folder)` in another process and returns its exit code,
        negative for a signal; by default in a new Python process.

    Raises DataError, ConfigError: the reader raised it. Raises DataError: the child was killed.
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
    return {part: _open_part(folder, part, entry) for part, entry in reply["parts"].items()}


def answer(folder: Path) -> None:
    """In the child: read the requested files, and write arrays or the error to `folder`."""
    request = json.loads((folder / _REQUEST).read_bytes())
    memory_mb = request["memory_mb"]
    limit_memory(machine_bytes() if memory_mb is None else int(memory_mb * 2**20))
    parts = {part: [Path(path) for path in paths] for part, paths in request["parts"].items()}
    reply: dict[str, Any]
    first = next(path for paths in parts.values() for path in paths)
    try:
        # Each reader names its file in errors; `parsing` is for errors of other code.
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
    """Run `answer(folder)` in a new Python process; returns its exit code.

    multiprocessing is not used, because its children import the caller's main module.
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
    """Write the arrays of a part that the reader has not written; returns their description."""
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


def _open_part(folder: Path, part: str, description: Mapping[str, Any]) -> PartRows:
    def array(name: str) -> np.ndarray:
        return mapped(folder / f"{part}.{name}.npy")

    X: Any
    if description["dense"]:
        X = array("X")
    else:
        from scipy.sparse import csr_matrix

        shape = tuple(description["shape"])
        X = csr_matrix(tuple(array(name) for name in _CSR), shape=shape, copy=False)
    labels = description["labels"]
    return PartRows(
        X,
        array("y"),
        None if labels is None else tuple(labels),
        None,
        description["layout"],
        array("groups") if description["grouped"] else None,
        tuple(description["notes"]),
        description["n_without_target"],
    )


def _ending(code: int) -> str:
    """The end of a process in words: `SIGSEGV`, `exit code 1`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


if __name__ == "__main__":
    answer(Path(sys.argv[1]))
