"""One-hot encoding and loading of kddcup99's 494,021 rows, against pandas; seconds and peak memory.

    python scripts/bench_kddcup.py

Reads the files of `kddcup99`, variant `ten_percent`, from $KBENCH_DATA or datasets/. Each line is
measured in a process of its own; imports are not timed, and the peak is that of the whole process,
Python and libraries included. Goals: at most 8 s for the training file, and below 1 GiB for all.
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.config import composer
from kbench.data import Folders, locate, open_prepared, prepare, with_variant

Config = Mapping[str, Any]


def read_with_kbench(config: Config, path: Path) -> tuple[int, int]:
    """CSR features and targets of the training file."""
    from kbench.data import formats

    with tempfile.TemporaryDirectory() as scratch:
        parts = {"all": [path]}
        rows = formats.read("csv", parts, config["source"], "binary", None, Path(scratch))["all"]
        return tuple(rows.X.shape)


def read_with_pandas(config: Config, path: Path) -> tuple[int, int]:
    """The same with pandas, as dense float32."""
    import pandas as pd

    columns = config["source"]["columns"]
    frame = pd.read_csv(path, names=columns["names"], compression="infer")
    target = frame.pop(columns["target"])
    X = pd.get_dummies(frame, columns=columns["categorical"], dtype=np.float32).to_numpy(np.float32)
    assert len(target) == len(X)
    return tuple(X.shape)


def prepare_all(config: Config, path: Path) -> tuple[int, int]:
    """Both files to memory-mapped arrays, as a first run does: hash, read, scale, write, open."""
    with tempfile.TemporaryDirectory() as own:
        folders = Folders.from_environment()
        data = open_prepared(prepare(config, Folders(Path(own), (folders.own, *folders.read_only))))
        return (data.n_train + data.n_test, data.n_features)


def measure(call: Callable[..., tuple[int, int]], config: Config, path: Path, answer: Any) -> None:
    """Run in a child process: wall seconds, peak MiB and the shape of the result."""
    import pandas  # noqa: F401
    import pyarrow.csv  # noqa: F401
    import scipy.sparse  # noqa: F401

    begin = time.perf_counter()
    shape = call(config, path)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.put((seconds, peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), shape))


def main() -> None:
    """Measure the three, each in a fresh process."""
    with composer() as compose:
        words = ["dataset=kddcup99", "dataset.variant=ten_percent"]
        config = with_variant(compose.compose(words)["dataset"])
    files = locate(config, Folders.from_environment())
    missing = next((file for file in files if file.path is None), None)
    if missing is not None:
        print(f"{missing.name} is not there; looked for {missing.candidates[0]} and the like")
        return
    context = multiprocessing.get_context("spawn")
    lines = {
        "training file, kbench": read_with_kbench,
        "training file, pandas": read_with_pandas,
        "both files, prepared and opened": prepare_all,
    }
    for name, call in lines.items():
        answer = context.Queue()
        child = context.Process(target=measure, args=(call, config, files[0].path, answer))
        child.start()
        seconds, peak, (n, d) = answer.get()
        child.join()
        print(f"{name:32s} {n:7,d} x {d}   {seconds:5.2f} s   peak {peak:5.0f} MiB")


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
