"""Machines that choose their own parameters: CPU seconds of search and fit, and test scores.

    python scripts/bench_tuned.py [--seeds N] [--kind svc|svr|ridge] [DATASET[:ROWS] ...]

Each line is one data set (its first ROWS training rows): mean CPU seconds of the fit, the search's
fraction of it, the test accuracy in per cent or RMSE with its deviation over the seeds, the
chosen parameters of the last seed, HistGradientBoosting beside it, and what is required. liquidSVM
(`pip install liquidSVM`) is beside it where it is installed. One thread, compiled beforehand.

Constants were set on pendigits, skin_nonskin, wine, kin40k and generators. The test rows of the
other sets are for reports only.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from kbench.config import composer
from kbench.data import Dataset, Folders, open_prepared, prepare
from kbench.errors import DataNotFoundError
from kbench.methods import TunedKernelRidge, TunedKernelSVC, TunedKernelSVR

# Seconds at most and test accuracy at least, for data set and number of rows.
MUSTS = {
    "covtype_93k:5000": "<= 3 s, >= 79.5 %",
    "covtype_93k:10000": "<= 8 s, >= 82.8 %",
    "covtype_93k": "<= 10 s, >= 91.3 %",
    "ijcnn1": "<= 5 s, >= 98.6 %",
    "cod-rna": "<= 5 s, >= 96.5 %",
    "a9a": "<= 4 s, >= 84.9 %",
    "w8a": "<= 10 s, >= 99.2 %",
    "letter": "<= 20 s, >= 97.5 %",
    "usps": "<= 20 s, >= 95 %",
    "mnist": "<= 300 s, >= 98.3 %",
}
CLASSES = {"svc": TunedKernelSVC, "svr": TunedKernelSVR, "ridge": TunedKernelRidge}


def load(name: str) -> tuple[Dataset, str]:
    """The prepared data set, and its task."""
    with composer() as hydra:
        config = hydra.compose([f"dataset={name}"])["dataset"]
    return open_prepared(prepare(config, Folders.from_environment(), download=False)), config[
        "task"
    ]


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its CPU seconds."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def score(task: str, truth: np.ndarray, predicted: np.ndarray) -> float:
    """Accuracy in per cent, or RMSE."""
    if task == "regression":
        return float(np.sqrt(np.mean((predicted - truth) ** 2)))
    return 100.0 * float(np.mean(predicted == truth))


def dense(X: Any) -> np.ndarray:
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def liquid(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Predictions of liquidSVM: 5 folds, 10 x 10 grid; Voronoi cells beyond 15,000 rows."""
    import liquidSVM

    options = {"voronoi": 6} if len(y) > 15_000 else {}
    return liquidSVM.mcSVM(X, y, threads=1, **options).test(new)[0][:, 0]


def line(spec: str, kind: str | None, seeds: int) -> None:
    name, _, rows = spec.partition(":")
    data, task = load(name)
    estimator = CLASSES[kind or ("svr" if task == "regression" else "svc")]
    n = int(rows) if rows else len(data.y_train)
    X, y = data.X_train[:n], data.y_train[:n]
    some = np.random.default_rng(0).permutation(X.shape[0])[:2000]
    estimator(random_state=0).fit(X[some], y[some]).predict(data.X_test[:10])  # compiles
    seconds, searches, scores = [], [], []
    for seed in range(seeds):
        machine, spent = timed(lambda seed=seed: estimator(random_state=seed).fit(X, y))
        seconds.append(spent)
        searches.append(machine.timings_["search"] / sum(machine.timings_.values()))
        scores.append(score(task, data.y_test, machine.predict(data.X_test)))
    parameters = {
        key: round(getattr(machine, key), 5)
        for key in ("gamma_", "C_", "epsilon_", "alpha_")
        if hasattr(machine, key)
    }
    print(
        f"{spec:18} {estimator.__name__:16} {np.mean(seconds):7.2f} s (search "
        f"{np.mean(searches):.0%}) {np.mean(scores):.4f} +- {np.std(scores):.4f} {parameters} "
        f"{type(machine.best_estimator_).__name__}; must {MUSTS.get(spec, '-')}",
        flush=True,
    )
    boosting = (
        HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    )
    rival, spent = timed(lambda: boosting(random_state=0).fit(dense(X), y))
    reached = score(task, data.y_test, rival.predict(dense(data.X_test)))
    print(f"{'':18} boosting {spent:15.2f} s {reached:.4f}", flush=True)
    if task != "regression" and find_spec("liquidSVM") is not None:
        predicted, spent = timed(lambda: liquid(dense(X), y, dense(data.X_test)))
        print(f"{'':18} liquidSVM {spent:14.2f} s {score(task, data.y_test, predicted):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", default=list(MUSTS), metavar="DATASET[:ROWS]")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kind", choices=sorted(CLASSES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for spec in options.sets:
            try:
                line(spec, options.kind, options.seeds)
            except DataNotFoundError as error:
                print(f"{spec}: {error}")


if __name__ == "__main__":
    main()
