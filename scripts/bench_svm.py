"""KernelSVC and DCSVC (early) beside scikit-learn's SVC, in one process on one thread.

    python scripts/bench_svm.py [DATASET ...]       (default: ijcnn1 a9a)

C and gamma are the data set's own. SVC has an intercept and LIBSVM's criterion, KernelSVC none:
their problems and objectives differ a little; accuracies are comparable. Seconds are CPU and wall;
ratios are SVC's CPU seconds by ours. Data that are not at hand are named and passed over.
"""

import sys
import time

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from kbench.config import composer
from kbench.data import Dataset, Folders, open_prepared, prepare
from kbench.errors import DataNotFoundError
from kbench.methods import DCSVC, KernelSVC


def load(name: str) -> tuple[Dataset, dict]:
    """The prepared data set, and its parameters for support vector machines."""
    with composer() as hydra:
        config = hydra.compose([f"dataset={name}"])["dataset"]
    data = open_prepared(prepare(config, Folders.from_environment(), download=False))
    return data, {key: config["use"]["svm"][key] for key in ("C", "gamma")} | {
        "n_clusters": config["use"].get("dcsvm", {}).get("n_clusters", 64)
    }


def timed(function, *arguments):
    """Result, CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = function(*arguments)
    return result, time.process_time() - cpu, time.perf_counter() - wall


def compare(name: str) -> None:
    """Print a line for each method."""
    data, use = load(name)
    n_clusters = use.pop("n_clusters")
    fit_svc = predict_svc = None
    for label, model in (
        ("SVC", SVC(**use, cache_size=8000)),
        ("kernel_svc", KernelSVC(**use)),
        ("dcsvm_early", DCSVC(n_clusters, **use, random_state=0)),
    ):
        _, cpu, wall = timed(model.fit, data.X_train, data.y_train)
        predicted, predict_cpu, _ = timed(model.predict, data.X_test)
        fit_svc, predict_svc = fit_svc or cpu, predict_svc or predict_cpu
        objective = getattr(model, "objective_", float("nan"))
        print(
            f"{name:11} {label:12} {cpu:8.2f} {wall:6.2f} {fit_svc / cpu:6.1f} "
            f"{predict_cpu:13.2f} {predict_svc / predict_cpu:6.1f} "
            f"{np.mean(predicted == data.y_test):9.4f} {objective:10.2f}",
            flush=True,
        )


def main() -> None:
    print(
        "data        method        fit cpu   wall  ratio   predict cpu  ratio  accuracy  objective"
    )
    for name in sys.argv[1:] or ("ijcnn1", "a9a"):
        try:
            compare(name)
        except DataNotFoundError as error:
            print(error)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
