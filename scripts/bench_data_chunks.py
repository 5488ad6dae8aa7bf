"""A large LIBSVM file in chunks and prepared, at constant memory, against scikit-learn by offsets.

    python scripts/bench_data_chunks.py [megabytes, default 200] [folder for the file]

Writes a file of rows like Covertype's (54 columns, 12 of them not zero) of that size, reads it in
chunks and prepares it. Each line is measured in a process of its own; imports and compilation are
not timed. Peak memory is that of the whole process. While a file is prepared it includes mapped
pages, which the system can reclaim, so private memory is limited separately (RLIMIT_DATA): to
160 MiB and 48 bytes a row more than at the start. Goals: at least 100 MB/s on one core, and a peak
of reading in chunks that does not depend on the size of the file.
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from kbench.config import composer

ROWS = 65536  # rows of a chunk
LENGTH = 8 << 20  # bytes that scikit-learn's reader gets at a time
LIMIT = 160 << 20  # bytes of private memory for a preparation
LIMIT_OF_ROW = 48  # further bytes of private memory for each row
DIFFERENT = 20_000  # different rows in the file, which are repeated


def generate(path: Path, size: int) -> None:
    """Write LIBSVM text of about `size` bytes: DIFFERENT rows, repeated."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(DIFFERENT):
        quantities = [f"{j + 1}:{v}" for j, v in enumerate(rng.integers(0, 4000, 10))]
        groups = [f"{11 + rng.integers(4)}:1", f"{15 + rng.integers(40)}:1"]
        lines.append(" ".join([str(1 + rng.integers(2)), *quantities, *groups]) + "\n")
    block = "".join(lines).encode()
    with open(path, "wb") as out:
        while out.tell() < size:
            out.write(block)


def in_chunks(path: Path) -> int:
    """`kbench.data.chunks` with a known number of features."""
    from kbench.data import chunks

    return sum(y.size for _, y in chunks(path, rows=ROWS, n_features=54))


def by_offsets(path: Path) -> int:
    """`load_svmlight_file` of successive blocks of 8 MiB."""
    from sklearn.datasets import load_svmlight_file

    n = 0
    for offset in range(0, path.stat().st_size, LENGTH):
        part = {"offset": offset, "length": LENGTH, "zero_based": False, "n_features": 54}
        X, _ = load_svmlight_file(path, dtype=np.float32, **part)
        n += X.shape[0]
    return n


def prepare_all(path: Path) -> int:
    """Hash, read, scale to [0, 1], split in file order, write, open."""
    from kbench.data import Folders, open_prepared, prepare

    limits = resource.getrlimit(resource.RLIMIT_DATA)
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        held = int(status.partition("VmData:")[2].split()[0]) << 10
        rows = DIFFERENT * path.stat().st_size // path.with_name("small").stat().st_size
        resource.setrlimit(resource.RLIMIT_DATA, (held + LIMIT + LIMIT_OF_ROW * rows, limits[1]))
    with composer() as compose, tempfile.TemporaryDirectory(dir=path.parent) as own:
        words = ["dataset=file", f"dataset.path={path}", "dataset.task=binary"]
        words += ["dataset.scale=unit", "dataset.n_features=54", "dataset.storage=dense"]
        words += ["dataset.split.kind=random"]
        config = compose.compose(words)["dataset"]
        data = open_prepared(prepare(config, Folders(Path(own))))
        return data.n_train + data.n_test


def measure(call: Callable[[Path], int], path: Path, small: Path) -> tuple[float, ...]:
    """Run in a child process: CPU seconds, wall seconds, MiB before and at the peak, rows."""
    call(small)
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    begin = (time.process_time(), time.perf_counter())
    n = call(path)
    seconds = (time.process_time() - begin[0], time.perf_counter() - begin[1])
    return (*seconds, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, n)


def main() -> None:
    """Measure the three, each in a fresh process."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    calls = {
        "chunks of 65,536 rows, kbench": in_chunks,
        "8 MiB after 8 MiB, scikit-learn": by_offsets,
        "prepared, kbench": prepare_all,
    }
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        path, small = Path(folder) / "large", Path(folder) / "small"
        generate(path, megabytes * 10**6)
        generate(small, 1)
        size = path.stat().st_size / 1e6
        for name, call in calls.items():
            with ProcessPoolExecutor(1, mp_context=context) as child:
                cpu, wall, before, peak, n = child.submit(measure, call, path, small).result()
            print(
                f"{name:32s} {size:6.0f} MB, {n:10,.0f} rows   {cpu:6.2f} s CPU, {wall:6.2f} s,"
                f" {size / cpu:4.0f} MB/s   peak {peak:5.0f} MiB, {before:4.0f} of them before"
            )


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
