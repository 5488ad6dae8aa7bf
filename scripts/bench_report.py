"""Time and size of `kbench report` for a folder of merged rows.

The limits for 10,000 rows are 5 s for the terminal, and 10 s and 5 MB for the web page.

    python scripts/bench_report.py [ROWS] [--keep FOLDER]

Beside it stands pandas, which only reads the folder, in a new process as well.
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

from kbench.run.results.folder import ResultsFolder
from kbench.run.results.rows import to_table

SCORES = ("accuracy", "error", "balanced_accuracy", "f1", "roc_auc", "average_precision")
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def sweep(n_rows: int) -> list[dict[str, object]]:
    """Synthetic rows of a sweep: 10 data sets x 10 methods x settings x 4 seeds."""
    rng = np.random.default_rng(0)
    per_cell = -(-n_rows // 400)
    grid = itertools.product(range(per_cell), range(10), range(10), range(4))
    rows = []
    for number, (setting, dataset, method, seed) in enumerate(itertools.islice(grid, n_rows)):
        ok = rng.random() > 0.03
        row: dict[str, object] = {
            "key": hashlib.sha256(str(number).encode()).hexdigest()[:32],
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
            "command": f"kbench method=method_{method} dataset=dataset_{dataset} seed={seed}"
            f" method.C={2.0**setting} method.gamma=0.5 limits.wall_s=120",
            "log": f"one line of the log of {number}\n" * 100,
            "kbench_version": "0.1.0",
            "commit": "0" * 40,
            "dirty": False,
            "source_sha256": f"{method:064x}",
        }
        if not ok:
            row["message"] = f"not done within limits.wall_s=120 ({number})"
        if ok:
            wall = float(rng.lognormal())
            row |= {
                "n_train": 50_000,
                "n_test": 10_000,
                "n_features": 22,
                "n_classes": 2,
                **{name: float(rng.beta(40, 3)) for name in SCORES},
                "fit_wall_s": wall,
                "fit_cpu_s": 0.99 * wall,
                "predict_wall_s": wall / 50,
                "predict_cpu_s": 0.99 * wall / 50,
                "load_s": float(rng.random()),
                "warmup_s": float(rng.random()),
                "objective": -float(rng.lognormal(9)),
                "n_support": int(rng.integers(10, 10**5)),
                "n_iter": int(rng.integers(10, 10**6)),
                "converged": True,
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
        command = [sys.executable, "-m", "kbench", "report", f"results_dir={folder}"]
        report = seconds(*command)
        with tempfile.TemporaryDirectory() as elsewhere:
            file = Path(elsewhere) / "report.html"
            page = seconds(*command, "format=html", f"out={file}")
            megabytes = file.stat().st_size / 1e6
        code = f"import pandas; pandas.read_parquet({str(folder)!r})"
        peer = seconds(sys.executable, "-c", code)
        begin = time.perf_counter()
        ResultsFolder(folder).finished("0a1b2c3d", 1)
        finished = time.perf_counter() - begin
    print(f"kbench report, {arguments.rows:,} merged rows  {report:.2f} s (limit: 5 s)")
    print(f"the web page                             {page:.2f} s (limit: 10 s)")
    print(f"                                         {megabytes:.2f} MB (limit: 5 MB)")
    print(f"pandas.read_parquet alone                {peer:.2f} s (ratio {report / peer:.1f})")
    print(f"looking up what is finished              {finished:.3f} s")


if __name__ == "__main__":
    main()
