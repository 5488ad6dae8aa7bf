"""DC-SVM with early prediction on more rows than memory: time, memory and accuracy.

    python scripts/bench_chunks.py rows [1000000 10000000]       # fits in the runner, rows on disk
    python scripts/bench_chunks.py file [megabytes, default 3200] [memory_mb, default 1500]
    python scripts/bench_chunks.py linear [rows, default 10000000] [memory_mb, default 1500]
    python scripts/bench_chunks.py workers [rows, default 4000000] # one and two Dask workers
    python scripts/bench_chunks.py steps [steps, default 30]       # doubly SGD, the same

`rows` runs `dcsvm_early` on covtype_like (54 columns) with `limits.memory_mb=1500`, which the guard
enforces, 4,000 rows a cluster and one thread, and reads the results. `file` writes Parquet to
$TMPDIR, which takes three times its size, fits it by `chunked_files` with limited private memory,
and counts the bytes that are read. `linear` fits `KernelSVC(kernel="linear")` to a memory map in
$TMPDIR of normal rows of 20 columns, with limited private memory; it takes 160 bytes a row.
`workers` and `steps` compare wall seconds, so they need as many idle cores as workers; `steps` are
of 16,384 rows and 2,048 random features. One run each; CPU seconds do not contain compiling.
"""

import contextlib
import logging
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

CLUSTER = 4000  # rows
MEMORY_MB = 1500
MAX_S, MAX_EXPONENT, MIN_ROWS_A_SECOND, MIN_SPEEDUP = 600, 1.08, 300_000, 1.7
MIN_STEPS = 1.6  # steps a second of doubly SGD on two workers, in those of one worker
LINEAR_COLUMNS, MAX_LINEAR_S = 20, 200  # of `linear`: columns, CPU s of ten million rows
BATCH, BLOCK = 16384, 2048  # rows and random features of a step


def line(what: str, value: str, must: str, holds: bool) -> None:
    """Print a measurement beside what it must be."""
    print(f"{what:58s} {value:>16s}   must be {must:16s} {'holds' if holds else 'MISSED'}")


def rows_in_the_runner(sizes: list[int]) -> None:
    """Fit each number of rows in the runner and compare the smallest with the largest."""
    import pandas as pd

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            words = ["method=dcsvm_early", "dataset=covtype_like", f"dataset.n={n}"]
            words += ["dataset.n_test=1000000", "dataset.chunks=always", "method.n_levels=1"]
            words += [f"method.n_clusters={max(1, n // CLUSTER)}", f"results_dir={folder}/{n}"]
            words += [f"limits.memory_mb={MEMORY_MB}", "limits.setup_s=3600"]
            subprocess.run([sys.executable, "-m", "kbench", *words], check=True)
            (row,) = pd.read_parquet(f"{folder}/{n}").to_dict("records")
            found.append(row)
            seconds, rate = row["fit_cpu_s"], row["n_test"] / row["predict_cpu_s"]
            what = f"{n:,} rows, {seconds / n * 1e6:.1f} us a row:"
            line(f"{what} CPU s of fit", f"{seconds:.1f}", f"<= {MAX_S}", seconds <= MAX_S)
            peak = row["peak_bytes"] / 2**20
            line(f"{what} peak MiB", f"{peak:.0f}", f"<= {MEMORY_MB}", peak <= MEMORY_MB)
            line(
                f"{what} rows predicted a CPU s",
                f"{rate:,.0f}",
                f">= {MIN_ROWS_A_SECOND:,}",
                rate >= MIN_ROWS_A_SECOND,
            )
    if len(found) > 1:
        first, last = found[0], found[-1]
        ratio = math.log(last["fit_cpu_s"] / first["fit_cpu_s"])
        exponent = ratio / math.log(last["n_train"] / first["n_train"])
        holds = exponent <= MAX_EXPONENT
        line("exponent of CPU time", f"{exponent:.3f}", f"<= {MAX_EXPONENT}", holds)
        accuracy = last["accuracy"]
        line(
            f"accuracy at {last['n_train']:,} rows",
            f"{100 * accuracy:.2f} %",
            f">= {100 * first['accuracy']:.2f} %",
            accuracy >= first["accuracy"],
        )


def write_file(path: Path, megabytes: int) -> int:
    """Write covtype_like as plain Parquet until the file has that size; returns its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kbench.data import chunked_generator

    names = [f"x{j + 1}" for j in range(54)]
    schema = pa.schema([(name, pa.float32()) for name in names] + [("y", pa.float64())])
    n = 0
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as out:
        for block in chunked_generator("covtype_like", 1 << 40, d=54).blocks(65536):
            columns = [*np.asfortranarray(block.X).T, block.y.astype(np.float64)]
            out.write_table(pa.table(columns, schema=schema))
            n += len(block.y)
            if n * (4 * 54 + 8) > megabytes * 10**6:
                break
    return n


def bytes_read() -> int:
    """Bytes that this process has got by read(); mapped files are not in it."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


@contextlib.contextmanager
def limited_memory(memory_mb: float) -> Iterator[None]:
    """Limit private memory to `memory_mb` above what the process has."""
    status = Path("/proc/self/status").read_text()
    held = int(status.partition("VmData:")[2].split()[0]) << 10
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (held + int(memory_mb * 2**20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def a_file(megabytes: int, memory_mb: float) -> None:
    """Write Parquet, and fit it with private memory limited to `memory_mb` above the start."""
    # Arrow's own allocator reserves a GiB at once, which would count as private memory.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from kbench.data import chunked_files, chunked_generator
    from kbench.methods import DCSVC

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        n, size = write_file(path, megabytes), path.stat().st_size
        rows = chunked_files(
            path,
            format="parquet",
            columns={"target": "y"},
            memory_mb=0.75 * memory_mb,
            scratch=folder,
        )
        parameters = {"C": 8, "gamma": 4, "n_levels": 1, "random_state": 0}
        warm = chunked_generator("covtype_like", 8000, d=54)
        DCSVC(2, **parameters).fit(warm).predict(warm)
        with limited_memory(memory_mb):
            read, begin, wall = bytes_read(), time.process_time(), time.perf_counter()
            model = DCSVC(max(1, n // CLUSTER), **parameters).fit(rows)
            seconds, wall = time.process_time() - begin, time.perf_counter() - wall
            passes = (bytes_read() - read) / size
        print(
            f"Parquet, {size / 1e6:,.0f} MB, {n:,} rows, private memory limited to "
            f"{memory_mb:g} MiB above the start: {seconds:.1f} s CPU, {wall:.1f} s wall"
        )
        line("passes over the file", f"{passes:.3f}", "<= 2.05", passes <= 2.05)
        test = chunked_generator("covtype_like", 100_000, d=54, part="test")
        print(f"accuracy {100 * model.score(test):.2f} %; seconds of phases {model.timings_}")


def linear_rows(n: int, memory_mb: float) -> None:
    """Fit a linear kernel to rows on disk, with private memory limited as in `a_file`."""
    from kbench.data import ChunkedRows
    from kbench.methods import KernelSVC

    rng = np.random.default_rng(0)
    normal = rng.standard_normal(LINEAR_COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        y = np.empty(n, np.int8)
        X = np.lib.format.open_memmap(f"{folder}/X.npy", "w+", np.float32, (n, LINEAR_COLUMNS))
        for start in range(0, n, 500_000):
            part = rng.standard_normal((min(500_000, n - start), LINEAR_COLUMNS))
            X[start : start + len(part)] = part
            noise = 1.5 * rng.standard_normal(len(part))
            y[start : start + len(part)] = part @ normal + noise > 0.0
        del X
        X = np.load(f"{folder}/X.npy", mmap_mode="r")
        model = KernelSVC(kernel="linear")
        model.fit(ChunkedRows.of_arrays(X[:8000], y[:8000]))  # imports
        with limited_memory(memory_mb):
            begin = time.process_time()
            rows = ChunkedRows.of_arrays(X, y, memory_mb=0.75 * memory_mb, scratch=folder)
            model.fit(rows)
            seconds = time.process_time() - begin
    what = f"{n:,} x {LINEAR_COLUMNS} rows, linear, private memory within {memory_mb:g} MiB:"
    most = MAX_LINEAR_S * n / 10_000_000
    line(f"{what} CPU s", f"{seconds:.1f}", f"<= {most:g}", seconds <= most)
    gap = model.duality_gap_ / abs(model.objective_)
    line("duality gap in parts of the objective", f"{gap:.1e}", "<= 1e-6", gap <= 1e-6)
    print(f"{model.n_iter_[0]} iterations, violation {model.violation_:.1e}")


def generated(n: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of covtype_like and their labels."""
    from kbench.data import chunked_generator

    blocks = list(chunked_generator("covtype_like", n, d=54).blocks())
    X, y = (np.concatenate(parts) for parts in zip(*((b.X, b.y) for b in blocks), strict=True))
    return X, y


@contextlib.contextmanager
def dask(workers: int) -> Iterator[None]:
    """Have joblib compute on local Dask workers of one thread each."""
    import joblib
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0"}
    options["silence_logs"] = logging.CRITICAL
    with (
        LocalCluster(n_workers=workers, **options) as cluster,
        Client(cluster),
        joblib.parallel_config("dask"),
    ):
        yield


def dask_workers(n: int) -> None:
    """Fit with one and with two worker processes of a local Dask cluster."""
    from kbench.data import ChunkedRows
    from kbench.methods import DCSVC

    X, y = generated(n)
    rows = ChunkedRows.of_arrays(X, y, memory_mb=MEMORY_MB)
    model = DCSVC(max(1, n // CLUSTER), C=8, gamma=4, n_levels=1, random_state=0)
    seconds, machines = [], []
    for workers in (1, 2):
        with dask(workers):
            model.fit(ChunkedRows.of_arrays(X[:8000], y[:8000]))  # imports, compiled code
            begin = time.perf_counter()
            model.fit(rows)
            seconds.append(time.perf_counter() - begin)
            machines.append(model._machine.machines.records.data.tobytes())
            print(f"{workers} workers, {n:,} rows: {seconds[-1]:.1f} s, {model.timings_}")
    speedup = seconds[0] / seconds[1]
    holds = speedup >= MIN_SPEEDUP
    line("two workers against one, wall", f"{speedup:.2f} x", f">= {MIN_SPEEDUP} x", holds)
    same = machines[0] == machines[1]
    line("same bytes of the model", str(same), "True", same)


def dask_steps(n_steps: int) -> None:
    """Steps a second of doubly SGD with one and with two worker processes of a local cluster."""
    from kbench.data import ChunkedRows
    from kbench.methods import DoublySGDClassifier
    from kbench.trace import Trace

    X, y = generated(n_steps * BATCH)
    rates, curves = [], []
    for workers in (1, 2):
        losses: list[float] = []
        trace = Trace(lambda _, state, losses=losses: losses.append(state["loss"]))
        model = DoublySGDClassifier(
            batch_size=BATCH, block_size=BLOCK, gamma=4.0, n_shards=2, random_state=0
        )
        with dask(workers):
            model.fit(ChunkedRows.of_arrays(X[: 2 * BATCH], y[: 2 * BATCH]))  # imports
            model.fit(ChunkedRows.of_arrays(X, y), trace=trace)
        rates.append(n_steps / model.timings_["step"])
        curves.append((losses, model.coef_.tobytes()))
        print(
            f"{workers} workers: {rates[-1]:.2f} steps/s, loss {losses[0]:.3f} to {losses[-1]:.3f}"
        )
    gain, same = rates[1] / rates[0], curves[0] == curves[1]
    line(
        "two workers against one, steps/s",
        f"{gain:.2f} x",
        f">= {MIN_STEPS} x",
        gain >= MIN_STEPS,
    )
    line("same losses at every step, same bytes of the model", str(same), "True", same)


def main() -> None:
    """Measure what the first argument names."""
    for threads in ("OMP", "OPENBLAS", "NUMBA"):
        os.environ.setdefault(f"{threads}_NUM_THREADS", "1")
    what, *arguments = sys.argv[1:] or ["rows"]
    numbers = [int(float(argument)) for argument in arguments]
    if what == "rows":
        rows_in_the_runner(numbers or [1_000_000, 10_000_000])
    elif what == "file":
        a_file(*[*numbers, *[3200, MEMORY_MB][len(numbers) :]])
    elif what == "linear":
        linear_rows(*[*numbers, *[10_000_000, MEMORY_MB][len(numbers) :]])
    elif what == "steps":
        dask_steps(*numbers or [30])
    else:
        dask_workers(*numbers or [4_000_000])


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
