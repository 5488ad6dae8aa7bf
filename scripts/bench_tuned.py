"""Estimators that choose their own parameters: CPU seconds of search and fit, and test scores.

    python scripts/bench_tuned.py [--seeds N] [--kind svc|svr|ridge] [--held-out [--last]]
                                  [--grid FILE] [--probability] [DATASET[:ROWS] ...]

Each line is one data set (its first ROWS training rows): mean CPU seconds of the fit, the search's
fraction of it, the test accuracy in per cent or RMSE with its deviation over the seeds, the
chosen parameters of the last seed, HistGradientBoosting beside it, and what is required. liquidSVM
(`pip install liquidSVM`) is beside it where it is installed. One thread, compiled beforehand.
Regression sets have a line for each of `svr` and `ridge`.

`heavy_tails:ROWS` is generated: rows of Student's t, on which few rows decide the errors.

`--held-out` tests on training rows that were held out: with ROWS those behind the first ROWS, else
a random fifth, or with `--last` the last fifth of each class. Constants are chosen on such rows.

`--grid` adds a 10 x 10 grid of gamma and C (of the ridge) by five folds of the exact machine, 500
fits on the same training rows. They take 2 to 10 minutes for 4,000 rows, so what a grid chose and
its CPU seconds are kept in FILE (`scripts/bench_tuned_grids.json` for the sets of the table);
delete FILE, or a set's lines in it, to search anew. A grid knows no test row. The file's grids of
ridge of cadata, cpusmall, kin40k and protein_regression are older than the float64 of these
machines: in float32 they took up to several times as long.

`--probability` prints log losses of two classes: of the machine's probabilities, and of the best
sigmoid of its decision values on the test rows themselves. The mean of the difference over draws
of the rows is at least 1 / (calibration rows) + 1 / (test rows), because either sigmoid has two
parameters that fit its own rows.

Constants were set on pendigits, skin_nonskin, wine, kin40k, generators, and on rows held out of the
training rows of covtype_93k, ijcnn1, a9a, cod-rna and w8a. Test rows are for reports only.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numba
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from kbench.config import composer
from kbench.data import Dataset, Folders, open_prepared, prepare
from kbench.errors import DataNotFoundError
from kbench.methods import (
    KernelRidge,
    KernelSVC,
    KernelSVR,
    TunedKernelRidge,
    TunedKernelSVC,
    TunedKernelSVR,
)
from kbench.width_search.tasks import Classification

# Up to so many rows, all are held out in turn for the sigmoids; of more rows half, at most these.
_FEW_ROWS, _MAX_CALIBRATION = 16_000, 20_000
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
} | dict.fromkeys(
    ("cadata:4000", "cpusmall:4000", "kin40k:4000", "protein_regression:4000", "bike:4000"),
    "with --grid: RMSE <= 1.01 of the grid's, seconds <= 1/20",
)
# Values of each parameter of a grid.
GRID = 10
# Limit on steps of SVR in a grid for each training row.
_STEPS = 100
CLASSES = {"svc": TunedKernelSVC, "svr": TunedKernelSVR, "ridge": TunedKernelRidge}


def load(name: str) -> tuple[Dataset, str]:
    """The prepared data set, and its task."""
    with composer() as hydra:
        config = hydra.compose([f"dataset={name}"])["dataset"]
    return open_prepared(prepare(config, Folders.from_environment(), download=False)), config[
        "task"
    ]


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """The value that a call returns, and its CPU seconds."""
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


def predict_by_liquidsvm(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Predictions of liquidSVM: 5 folds, 10 x 10 grid; Voronoi cells beyond 15,000 rows."""
    import liquidSVM

    options = {"voronoi": 6} if len(y) > 15_000 else {}
    return liquidSVM.mcSVM(X, y, threads=1, **options).test(new)[0][:, 0]


def grid(kind: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The best of 100 parameters of the exact machine by five folds, and CPU seconds of the search.

    A fit of SVR ends after `_STEPS` steps for each row: at the largest C some would take minutes.
    """
    scale = 1.0 / (X.shape[1] * X.var())
    gammas = scale * np.logspace(-2.0, 2.5, GRID)
    name, values = {
        "svc": ("C", np.logspace(-2.0, 4.0, GRID)),
        "svr": ("C", y.std() * np.logspace(-2.0, 4.0, GRID)),
        "ridge": ("alpha", np.logspace(-6.0, 2.0, GRID)),
    }[kind]
    options = {"n_splits": 5, "shuffle": True, "random_state": 0}
    folds = StratifiedKFold(**options) if kind == "svc" else KFold(**options)
    scoring = None if kind == "svc" else "neg_mean_squared_error"
    machine = exact(kind, y, _STEPS * len(y))
    parameters = {"gamma": gammas, name: values}
    search = GridSearchCV(machine, parameters, cv=folds, scoring=scoring, refit=False)
    _, spent = timed(lambda: search.fit(X, y))
    chosen = {name: float(value) for name, value in search.best_params_.items()}
    return {"seconds": round(spent, 1), "parameters": chosen}


def exact(kind: str, y: np.ndarray, max_iter: int = -1) -> Any:
    """The machine of the grid, without its two parameters.

    Ridge in float64: at 3,200 rows of bike, a fit takes 0.3 to 0.5 s. In float32 a ridge of 1e-6
    takes 8 s for 200 iterations, and kernel values that vanish make the factorisation slower.
    """
    if kind == "svr":
        return KernelSVR(epsilon=0.1 * y.std(), max_iter=max_iter)
    return KernelSVC() if kind == "svc" else KernelRidge(dtype="float64")


def kept_grid(file: Path, key: str, kind: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The grid's result as kept in the file; if it is not there, it is searched and written."""

    def read() -> dict[str, Any]:
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    if key not in read():
        result = grid(kind, X, y)
        # Read again: another run may have written to the file during these minutes.
        found = read() | {key: result}
        file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return read()[key]


def log_losses(machine: TunedKernelSVC, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Log losses of the probabilities, and of the best sigmoid on these rows."""
    values = machine.decision_function(X)[:, None]
    sigmoid = LogisticRegression(C=np.inf).fit(values, y)
    best = log_loss(y, sigmoid.predict_proba(values))
    return float(log_loss(y, machine.predict_proba(X))), float(best)


def sampling_error(n: int, n_test: int) -> float:
    """Expected difference of the log losses where the two sigmoids are alike.

    Half the number of parameters over the number of rows, for either sample (S. S. Wilks, "The
    large-sample distribution of the likelihood ratio", Annals of Mathematical Statistics 9, 1938).
    """
    calibration = n if n <= _FEW_ROWS else min(n // 2, _MAX_CALIBRATION)
    return 1.0 / calibration + 1.0 / n_test


def line(spec: str, kind: str, rows: tuple[Any, ...], options: argparse.Namespace) -> None:
    X, y, X_test, y_test = rows
    task = "classification" if kind == "svc" else "regression"
    with_probability = options.probability and kind == "svc" and len(np.unique(y)) == 2
    parameters: dict[str, Any] = {"probability": True} if with_probability else {}
    estimator = partial(CLASSES[kind], **parameters)
    some = np.random.default_rng(0).permutation(X.shape[0])[:2000]
    estimator(random_state=0).fit(X[some], y[some]).predict(X_test[:10])  # compiles
    seconds, searches, scores, losses = [], [], [], []
    for seed in range(options.seeds):
        machine, spent = timed(lambda seed=seed: estimator(random_state=seed).fit(X, y))
        seconds.append(spent)
        searches.append(machine.timings_["search"] / sum(machine.timings_.values()))
        scores.append(score(task, y_test, machine.predict(X_test)))
        if with_probability:
            losses.append(log_losses(machine, X_test, y_test))
    chosen = {
        key: round(getattr(machine, key), 5)
        for key in ("gamma_", "C_", "epsilon_", "alpha_")
        if hasattr(machine, key)
    }
    print(
        f"{spec:18} {CLASSES[kind].__name__:16} {np.mean(seconds):7.2f} s (search "
        f"{np.mean(searches):.0%}) {np.mean(scores):.4f} +- {np.std(scores):.4f} {chosen} "
        f"{type(machine.best_estimator_).__name__}; must {MUSTS.get(spec, '-')}",
        flush=True,
    )
    if losses:
        own, best = np.mean(losses, axis=0)
        print(
            f"{'':18} log loss {own:.5f}, best sigmoid on the test rows {best:.5f}: "
            f"{own - best:+.5f}, expected of sampling {sampling_error(len(y), len(y_test)):+.5f}; "
            "must +0.0001",
            flush=True,
        )
    if options.grid:
        found = kept_grid(options.grid, f"{spec} {kind}", kind, dense(X), y)
        best = exact(kind, y).set_params(**found["parameters"]).fit(dense(X), y)
        reached = score(task, y_test, best.predict(dense(X_test)))
        print(
            f"{'':18} grid {found['seconds']:18.1f} s ({found['seconds'] / np.mean(seconds):.0f}x) "
            f"{reached:.4f} (ours {np.mean(scores) / reached:.4f} of it) {found['parameters']}",
            flush=True,
        )
    boosting = (
        HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    )
    rival, spent = timed(lambda: boosting(random_state=0).fit(dense(X), y))
    reached = score(task, y_test, rival.predict(dense(X_test)))
    print(f"{'':18} boosting {spent:15.2f} s {reached:.4f}", flush=True)
    if kind == "svc" and find_spec("liquidSVM") is not None:
        try:
            predicted, spent = timed(lambda: predict_by_liquidsvm(dense(X), y, dense(X_test)))
        except Exception as error:  # its only exception class
            print(f"{'':18} liquidSVM failed: {error}")
        else:
            print(f"{'':18} liquidSVM {spent:14.2f} s {score(task, y_test, predicted):.4f}")


def heavy_tails(n: int, seed: int = 0) -> tuple[Any, ...]:
    """n training and 2,000 test rows of Student's t with 2 degrees of freedom, and noise 0.1."""
    rng = np.random.RandomState(seed)
    X = rng.standard_t(2, size=(n + 2000, 8))
    y = 2.0 * np.sin(X[:, 0]) + 0.5 * X[:, 1] * np.exp(-(X[:, 2] ** 2)) + 0.1 * rng.randn(n + 2000)
    return X[:n], y[:n], X[n:], y[n:]


def lines(spec: str, options: argparse.Namespace) -> None:
    """Print the lines of a data set."""
    name, _, rows = spec.partition(":")
    if name == "heavy_tails":
        for kind in [options.kind] if options.kind else ["svr", "ridge"]:
            line(spec, kind, heavy_tails(int(rows)), options)
        return
    data, task = load(name)
    X, y, X_test, y_test = data.X_train, data.y_train, data.X_test, data.y_test
    n = int(rows) if rows else len(y)
    if options.held_out and n < len(y):
        X_test, y_test = X[n:], y[n:]
    elif options.held_out:
        if options.last:
            classes, index = np.unique(y, return_inverse=True)
            test = Classification(index, len(classes), balanced=False).last_rows(0.2)
            training = np.delete(np.arange(len(y)), test)
        else:
            order = np.random.default_rng(1).permutation(len(y))
            test, training = order[: len(y) // 5], order[len(y) // 5 :]
        X, y, X_test, y_test = X[training], y[training], X[test], y[test]
    n = min(n, len(y))
    kinds = ["svr", "ridge"] if task == "regression" else ["svc"]
    for kind in [options.kind] if options.kind else kinds:
        line(spec, kind, (X[:n], y[:n], X_test, y_test), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", default=list(MUSTS), metavar="DATASET[:ROWS]")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kind", choices=sorted(CLASSES))
    parser.add_argument("--held-out", action="store_true", help="test on training rows held out")
    parser.add_argument(
        "--last", action="store_true", help="with --held-out: the last fifth of each class"
    )
    parser.add_argument("--grid", type=Path, metavar="FILE", help="add a grid, kept in a file")
    parser.add_argument("--probability", action="store_true", help="add log losses of two classes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # CPU seconds count a second thread also while it waits.
    numba.set_num_threads(1)
    with threadpool_limits(1):
        for spec in options.sets:
            try:
                lines(spec, options)
            except DataNotFoundError as error:
                print(f"{spec}: {error}")


if __name__ == "__main__":
    main()
