"""What a run costs beside load, fit and predict: 200 runs of `dummy` on digits, one by one.

    python scripts/bench_overhead.py [runs]

The overhead of a run is the time from its start to the next one's, less the seconds that its row
counts for loading, fitting and predicting. The bar is a median of 0.1 s, the goal 0.05 s.
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
    counted = (rows["load_s"] + rows["fit_wall_s"] + rows["predict_wall_s"]).to_numpy()[:-1]
    overhead = pd.Series(gaps - counted)
    print(
        f"overhead of a run over {runs} runs: median {overhead.median():.4f} s, "
        f"95 % {overhead.quantile(0.95):.4f} s, most {overhead.max():.4f} s "
        f"(bar 0.1 s, goal 0.05 s); warm-up median {rows['warmup_s'].median():.4f} s of it"
    )


if __name__ == "__main__":
    main()
