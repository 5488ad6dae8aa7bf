"""Overhead of a run besides loading, fitting and predicting: 200 runs of `dummy` on digits.

    python scripts/bench_overhead.py [runs]

The runs are sequential. The overhead of a run is the time from its start to the start of the next
one, less the seconds that its row records for loading, fitting and predicting. The limit for the
median is 0.1 s, the goal 0.05 s.
"""

import subprocess
import sys
import tempfile

import pandas as pd


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kbench", "-m", "method=dummy", f"seed=range(0,{runs})"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        rows = pd.read_parquet(f"{folder}/results").sort_values("started_at")
    gaps = rows["started_at"].diff().dt.total_seconds().to_numpy()[1:]
    recorded = (rows["load_s"] + rows["fit_wall_s"] + rows["predict_wall_s"]).to_numpy()[:-1]
    overhead = pd.Series(gaps - recorded)
    print(
        f"overhead of a run over {runs} runs: median {overhead.median():.4f} s, "
        f"95 % {overhead.quantile(0.95):.4f} s, most {overhead.max():.4f} s "
        f"(limit 0.1 s, goal 0.05 s), of which the warm-up takes {rows['warmup_s'].median():.4f} s"
    )


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
