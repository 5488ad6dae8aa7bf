"""The first minute of a new user: wall seconds of imports, first fits and first commands.

    python scripts/bench_start.py [--only NAME ...]

Each line is a fresh process. "cold" ones begin with an empty folder of compiled code
(NUMBA_CACHE_DIR), "warm" ones follow with the same folder. Commands write their rows to a temporary
folder. `must` is the limit that is asked for, on a machine with nothing else to do; "beside" is
the wall time of a command without that of fit and prediction in its row, "further run" the time
from the start of one run of a sweep to the start of the next, without its fit.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kbench.run.results.folder import ResultsFolder

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
# Seconds by which the import of KernelSVC may be longer than that of scikit-learn's SVC.
_MORE_THAN_SVC = 0.4


@dataclass(frozen=True)
class Part:
    """Python code or arguments of kbench, and the limits of the cold and the warm process, if any.

    measure : wall, the whole process; beside, without fit and prediction; further, of a sweep.
    """

    run: str | list[str]
    cold: float | None
    warm: float | None
    measure: str = "wall"


PARTS = {
    "import SVC": Part("from sklearn.svm import SVC", None, None),
    "import KernelSVC": Part("from kbench.methods import KernelSVC", 1.6, 1.6),
    "fit digits": Part(_DIGITS, 5.0, 1.9),
    "fit ijcnn1": Part(_IJCNN1, 12.0, None),
    "meka ijcnn1": Part(["method=meka", "dataset=ijcnn1"], 20.0, None),
    "meka ijcnn1, beside": Part(["method=meka", "dataset=ijcnn1"], None, 2.5, "beside"),
    "svc digits": Part(["method=svc", "dataset=digits"], None, 1.8),
    "svc digits, further run": Part(
        ["-m", "method=svc", "dataset=digits", "seed=0,1,2,3,4"], None, 0.1, "further"
    ),
    "kernel_svc digits, further run": Part(
        ["-m", "method=kernel_svc", "dataset=digits", "seed=0,1,2,3,4"], None, 0.1, "further"
    ),
}


def seconds_of(part: Part, cache: Path, results: Path) -> float:
    """Seconds of what `part` measures, in one new process.

    Raises
    ------
    CalledProcessError
        The process failed.
    """
    command = [sys.executable, "-c", part.run]
    if isinstance(part.run, list):
        command = [sys.executable, "-m", "kbench", *part.run, f"results_dir={results}"]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "NUMBA_CACHE_DIR": str(cache)}
    start = time.perf_counter()
    subprocess.run(command, env=environment, capture_output=True, check=True)
    wall_s = time.perf_counter() - start
    if part.measure == "wall":
        return wall_s
    rows = ResultsFolder(results).read(reference=False).sort_values("started_at")
    if part.measure == "beside":
        return float(wall_s - (rows["fit_wall_s"] + rows["predict_wall_s"]).sum())
    between_s = rows["started_at"].diff().dt.total_seconds() - rows["fit_wall_s"].shift()
    return float(between_s.median())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME", choices=list(PARTS))
    arguments = parser.parse_args()
    svc_s: dict[str, float] = {}
    for name, part in PARTS.items():
        if arguments.only is not None and name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for state, must in (("cold", part.cold), ("warm", part.warm)):
                seconds = seconds_of(part, Path(folder) / "numba", Path(folder) / state)
                if name == "import SVC":
                    svc_s[state] = seconds
                if name == "import KernelSVC" and must is not None and state in svc_s:
                    must = min(must, svc_s[state] + _MORE_THAN_SVC)
                verdict = ""
                if must is not None:
                    verdict = f"must {must:5.2f}   {'met' if seconds <= must else 'FALLS SHORT'}"
                print(f"{name:30} {state} {seconds:7.3f} s   {verdict}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
