"""The first minute of a new user: wall seconds of imports, first fits and first commands.

    python scripts/bench_start.py [--only NAME ...]

Each line is a fresh process. "cold" ones begin with an empty folder of compiled code
(NUMBA_CACHE_DIR), "warm" ones follow with the same folder. `must` is the limit that is asked for,
on a machine with nothing else to do. Commands write their rows to a temporary folder.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_DIGITS = (
    "from sklearn.datasets import load_digits; from kbench.methods import KernelSVC; "
    "X, y = load_digits(return_X_y=True); KernelSVC(C=10, gamma=0.05).fit(X / 16, y)"
)
_IJCNN1 = (
    "from kbench.config import composer; from kbench.methods import KernelSVC\n"
    "from kbench.data import Folders, open_prepared, prepare\n"
    "with composer() as hydra: config = hydra.compose(['dataset=ijcnn1'])['dataset']\n"
    "data = open_prepared(prepare(config, Folders.from_environment(), download=False))\n"
    "KernelSVC(C=32, gamma=2).fit(data.X_train, data.y_train)"
)
# name: Python code or arguments of kbench, limit of the cold and of the warm run
PARTS: dict[str, tuple[str | list[str], float, float]] = {
    "import SVC": ("from sklearn.svm import SVC", float("nan"), float("nan")),
    "import KernelSVC": ("from kbench.methods import KernelSVC", 1.6, 1.6),
    "fit digits": (_DIGITS, 5.0, 1.9),
    "fit ijcnn1": (_IJCNN1, 12.0, float("nan")),
    "kbench meka ijcnn1": (["method=meka", "dataset=ijcnn1"], 20.0, 2.5),
    "kbench svc digits": (["method=svc", "dataset=digits"], float("nan"), 1.8),
}


def wall_seconds(part: str | list[str], cache: Path, results: Path) -> tuple[float, int]:
    """Seconds and exit code of one process."""
    command = [sys.executable, "-c", part]
    if isinstance(part, list):
        command = [sys.executable, "-m", "kbench", *part, f"results_dir={results}"]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "NUMBA_CACHE_DIR": str(cache)}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return time.perf_counter() - start, done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    arguments = parser.parse_args()
    for name, (part, *musts) in PARTS.items():
        if arguments.only is not None and name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "numba"
            for state, must in zip(("cold", "warm"), musts, strict=True):
                seconds, code = wall_seconds(part, cache, Path(folder) / state)
                limit = "" if must != must else f"must {must:g}"
                short = "   FALLS SHORT" if seconds > must else ""
                failed = f"   exit code {code}" if code else ""
                print(f"{name:22} {state} {seconds:7.2f} s   {limit}{short}{failed}", flush=True)


if __name__ == "__main__":
    main()
