"""KernelSVC and DCSVC (early) beside scikit-learn's SVC, in one process on one thread.

    KBENCH_DATA=folder python scripts/bench_svm.py [ijcnn1 a9a ...]

Reads LIBSVM files (plain or xz) of these names below the folders of KBENCH_DATA, and `NAME.t` for
testing. SVC has an intercept and LIBSVM's criterion, KernelSVC none: their problems and objectives
differ a little; accuracies are comparable. Seconds are CPU and wall; ratios are SVC's CPU by ours.
"""

import argparse
import lzma
import os
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from kbench.methods import DCSVC, KernelSVC

# name: features, C, gamma
SETTINGS = {
    "ijcnn1": (22, 32.0, 2.0),
    "a9a": (123, 1.0, 2.0**-5),
    "w8a": (300, 8.0, 2.0**-3),
}


def load(name: str, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    folders = filter(None, os.environ.get("KBENCH_DATA", "").split(os.pathsep))
    for folder in folders:
        for path in sorted(Path(folder).rglob(f"{name}*")):
            if path.is_file() and path.name in (name, f"{name}.xz"):
                with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as stream:
                    X, y = load_svmlight_file(stream, n_features=n_features, dtype=np.float32)
                return X.toarray(), y
    sys.exit(f"{name}: no such file below the folders of KBENCH_DATA; set it to where the data is")


def timed(function, *arguments):
    cpu, wall = time.process_time(), time.perf_counter()
    result = function(*arguments)
    return result, time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["ijcnn1"], choices=[*SETTINGS, []])
    print("data     method        fit cpu   wall  ratio   predict cpu  ratio  accuracy  objective")
    for name in parser.parse_args().names:
        d, C, gamma = SETTINGS[name]
        (X, y), (X_test, y_test) = load(name, d), load(f"{name}.t", d)
        fit_svc = predict_svc = None
        for label, model in (
            ("SVC", SVC(C=C, gamma=gamma, cache_size=8000)),
            ("kernel_svc", KernelSVC(C=C, gamma=gamma)),
            ("dcsvm_early", DCSVC(C=C, gamma=gamma, random_state=0)),
        ):
            _, cpu, wall = timed(model.fit, X, y)
            predicted, predict_cpu, _ = timed(model.predict, X_test)
            fit_svc, predict_svc = fit_svc or cpu, predict_svc or predict_cpu
            objective = getattr(model, "objective_", float("nan"))
            print(
                f"{name:8} {label:12} {cpu:8.2f} {wall:6.2f} {fit_svc / cpu:6.1f} "
                f"{predict_cpu:13.2f} {predict_svc / predict_cpu:6.1f} "
                f"{np.mean(predicted == y_test):9.4f} {objective:10.2f}",
                flush=True,
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
