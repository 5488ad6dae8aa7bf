"""DC-SVM with early prediction on more rows than memory: time, memory and accuracy.

    python scripts/bench_chunks.py rows [1000000 10000000]       # fits in the runner, rows on disk
    python scripts/bench_chunks.py file [megabytes, default 300]  # a LIBSVM file in chunks
    python scripts/bench_chunks.py workers [rows, default 4000000] # one and two Dask workers

`rows` runs `dcsvm_early` on covtype_like (54 columns) with `limits.memory_mb=1500`, which the guard
enforces, 4,000 rows a cluster and one thread, and reads the results. `file` writes LIBSVM text and
fits it by `chunked_files` with a tenth of its size as memory. `workers` compares wall seconds, so
it needs as many idle cores as workers. One run each; CPU seconds do not contain compiling.
"""

import logging
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CLUSTER = 4000  # rows
MEMORY_MB = 1500
MOST_S, MOST_EXPONENT, LEAST_ROWS_A_SECOND, LEAST_SPEEDUP = 600, 1.08, 300_000, 1.7


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
            line(f"{what} CPU s of fit", f"{seconds:.1f}", f"<= {MOST_S}", seconds <= MOST_S)
            peak = row["peak_bytes"] / 2**20
            line(f"{what} peak MiB", f"{peak:.0f}", f"<= {MEMORY_MB}", peak <= MEMORY_MB)
            line(
                f"{what} rows predicted a CPU s",
                f"{rate:,.0f}",
                f">= {LEAST_ROWS_A_SECOND:,}",
                rate >= LEAST_ROWS_A_SECOND,
            )
    if len(found) > 1:
        first, last = found[0], found[-1]
        ratio = math.log(last["fit_cpu_s"] / first["fit_cpu_s"])
        exponent = ratio / math.log(last["n_train"] / first["n_train"])
        holds = exponent <= MOST_EXPONENT
        line("exponent of CPU time", f"{exponent:.3f}", f"<= {MOST_EXPONENT}", holds)
        accuracy = last["accuracy"]
        line(
            f"accuracy at {last['n_train']:,} rows",
            f"{100 * accuracy:.2f} %",
            f">= {100 * first['accuracy']:.2f} %",
            accuracy >= first["accuracy"],
        )


def a_file(megabytes: int) -> None:
    """Write LIBSVM text and fit it with a tenth of its bytes as memory."""
    from kbench.data import chunked_files, chunked_generator
    from kbench.methods import DCSVC

    with tempfile.TemporaryDirectory() as folder:
        path, n = Path(folder) / "rows.libsvm", 0
        with open(path, "w") as out:
            for block in chunked_generator("covtype_like", 1 << 40, d=54).blocks(4096):
                for x, y in zip(block.X, block.y, strict=True):
                    entries = " ".join(f"{j + 1}:{x[j]:.6g}" for j in np.flatnonzero(x))
                    out.write(f"{y:+.0f} {entries}\n")
                n += len(block.y)
                if out.tell() > megabytes * 10**6:
                    break
        size = path.stat().st_size / 1e6
        rows = chunked_files(path, n_features=54, memory_mb=size / 10)
        parameters = {"C": 8, "gamma": 4, "n_levels": 1, "random_state": 0}
        warm = chunked_generator("covtype_like", 8000, d=54)
        DCSVC(2, **parameters).fit(warm).predict(warm)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.process_time()
        model = DCSVC(max(1, n // CLUSTER), **parameters).fit(rows)
        seconds = time.process_time() - begin
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        test = chunked_generator("covtype_like", 100_000, d=54, part="test")
        print(
            f"LIBSVM, {size:.0f} MB, {n:,} rows, memory_mb={rows.memory_mb:.0f}: {seconds:.1f} s "
            f"CPU, resident peak {peak:.0f} MiB above the start (mapped files included), "
            f"{100 * model.score(test):.2f} %; phases {model.timings_}"
        )


def dask_workers(n: int) -> None:
    """Fit with one and with two worker processes of a local Dask cluster."""
    import joblib
    from distributed import Client, LocalCluster

    from kbench.data import ChunkedRows, chunked_generator
    from kbench.methods import DCSVC

    blocks = list(chunked_generator("covtype_like", n, d=54).blocks())
    X, y = (np.concatenate(parts) for parts in zip(*((b.X, b.y) for b in blocks), strict=True))
    del blocks
    rows = ChunkedRows.of_arrays(X, y, memory_mb=MEMORY_MB)
    model = DCSVC(max(1, n // CLUSTER), C=8, gamma=4, n_levels=1, random_state=0)
    seconds, machines = [], []
    for workers in (1, 2):
        options = {"threads_per_worker": 1, "dashboard_address": None}
        options["silence_logs"] = logging.CRITICAL
        with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster):
            with joblib.parallel_config("dask"):
                model.fit(ChunkedRows.of_arrays(X[:8000], y[:8000]))  # imports, compiled code
                begin = time.perf_counter()
                model.fit(rows)
            seconds.append(time.perf_counter() - begin)
            machines.append(model._machine.machines.records.data.tobytes())
            print(f"{workers} workers, {n:,} rows: {seconds[-1]:.1f} s, {model.timings_}")
    speedup = seconds[0] / seconds[1]
    holds = speedup >= LEAST_SPEEDUP
    line("two workers against one, wall", f"{speedup:.2f} x", f">= {LEAST_SPEEDUP} x", holds)
    same = machines[0] == machines[1]
    line("same bytes of the model", str(same), "True", same)


def main() -> None:
    """Measure what the first argument names."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    what, *arguments = sys.argv[1:] or ["rows"]
    numbers = [int(float(argument)) for argument in arguments]
    if what == "rows":
        rows_in_the_runner(numbers or [1_000_000, 10_000_000])
    elif what == "file":
        a_file(*numbers or [300])
    else:
        dask_workers(*numbers or [4_000_000])


if __name__ == "__main__":
    main()
