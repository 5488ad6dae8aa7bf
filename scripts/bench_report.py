"""Seconds that `kbench report` needs for a folder of merged rows; the promise is 5 s for 10,000.

    python scripts/bench_report.py [ROWS] [--keep FOLDER]

The peer is reading the folder with pandas alone, in a new process as well.
"""

import argparse
import datetime
import hashlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kbench.run.results import ResultsFolder
from kbench.run.rows import to_table

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def sweep(n_rows: int) -> list[dict[str, object]]:
    """Made-up rows of a sweep: 10 data sets x 10 methods x settings x 4 seeds."""
    rng = np.random.default_rng(0)
    per_cell = -(-n_rows // 400)
    grid = itertools.product(range(per_cell), range(10), range(10), range(4))
    rows = []
    for number, (setting, dataset, method, seed) in enumerate(itertools.islice(grid, n_rows)):
        ok = rng.random() > 0.03
        row: dict[str, object] = {
            "key": hashlib.sha256(str(number).encode()).hexdigest(),
            "status": "ok" if ok else "timeout",
            "method": f"method_{method}",
            "dataset": f"dataset_{dataset}",
            "task": "binary",
            "seed": seed,
            "params": json.dumps({"C": 2.0**setting, "gamma": 0.5, "tol": 1e-3}),
            "data_sha256": f"{dataset:064x}",
            "threads": 1,
            "jobs": 1,
            "environment": "0a1b2c3d",
            "started_at": START + datetime.timedelta(seconds=number),
            "command": "kbench method=...",
            "log": "one line of a log\n" * 100,
        }
        if ok:
            wall = float(rng.lognormal())
            row |= {
                "n_train": 50_000,
                "n_test": 10_000,
                "n_features": 22,
                "n_classes": 2,
                "accuracy": float(rng.beta(40, 3)),
                "fit_wall_s": wall,
                "fit_cpu_s": 0.99 * wall,
                "predict_wall_s": wall / 50,
                "prediction_cost": float(rng.lognormal(4)),
                "model_bytes": int(rng.integers(10**4, 10**8)),
                "peak_bytes": int(rng.integers(10**8, 10**9)),
                "phases": {"cluster": wall / 3, "solve": wall / 2},
            }
        rows.append(row)
    return rows


def seconds(*command: str) -> float:
    """Wall time of a new process."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="?", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="leave the rows in this folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.concat_tables([to_table(row) for row in sweep(arguments.rows)])
        pq.write_table(table, folder / "merged-bench.parquet", compression="zstd")
        report = seconds(sys.executable, "-m", "kbench", "report", f"results_dir={folder}")
        code = f"import pandas; pandas.read_parquet({str(folder)!r})"
        peer = seconds(sys.executable, "-c", code)
        begin = time.perf_counter()
        ResultsFolder(folder).finished("0a1b2c3d", 1)
        finished = time.perf_counter() - begin
    print(f"kbench report, {arguments.rows:,} merged rows  {report:.2f} s (promised: 5 s)")
    print(f"pandas.read_parquet alone                {peer:.2f} s (ratio {report / peer:.1f})")
    print(f"looking up what is finished              {finished:.3f} s")


if __name__ == "__main__":
    main()
