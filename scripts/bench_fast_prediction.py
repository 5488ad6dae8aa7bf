"""Accuracy and cost of prediction of local machines on few landmarks, in units of `X @ w`.

    python scripts/bench_fast_prediction.py [--svc | --products] [DATASET[:VARIANT] ...]

Parameters are those of the data sets. The unit is a float32 product of 20,000 rows with one vector
in the same process, and machines predict the same 20,000 rows. One thread, CPU time; `ns a row` is
the minimum of many repeats, because the computer may be shared. `one` is a call of `predict` with
one row (at most 150 microseconds), `bare` a call of the compiled function (at most 10). `million`
is the time per row of a call with a million rows, divided by that of the arithmetic alone: matrix
products for the centres and landmarks of a row and one exponential for each landmark (at most 2).
`dcpred` is repeated with each of its ingredients switched off; `exact` is the machine on all rows.
With --svc, scikit-learn's SVC is shown too, and that of scikit-learn-intelex if it is installed.

With --products nothing is timed: percentages of a fifth of up to 12,000 training rows held out, of
`dcpred` without products, with all of them, and with as many as leave 4, 8 and 16 training rows of
a leaf for each column.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from kbench.clustering import KMeansTree
from kbench.config import composer
from kbench.data import Dataset, Folders, open_prepared, prepare
from kbench.errors import DataNotFoundError
from kbench.methods import DCSVC, DCPredClassifier, DCPredTrainedClassifier, KernelSVC
from kbench.prediction.landmarks import LocalLandmarks

NAMES = ("covtype_93k", "ijcnn1", "a9a", "letter:dcpred", "usps:dcpred")
ROWS, MILLION = 20_000, 1_000_000
ABLATIONS: dict[str, dict[str, Any]] = {
    "dcpred": {},
    " no pseudo landmarks": {"pseudo": "none"},
    " triangle": {"pseudo": "triangle"},
    " unweighted": {"landmarks": "kmeans"},
    " full support vectors": {"landmarks": "support", "pseudo": "none"},
}


def load(name: str) -> tuple[Dataset, dict[str, dict[str, Any]]]:
    """The prepared data set, and its parameters for each use."""
    name, _, variant = name.partition(":")
    with composer() as hydra:
        overrides = [f"dataset.variant={variant}"] if variant else []
        config = hydra.compose([f"dataset={name}", *overrides])["dataset"]
    data = open_prepared(prepare(config, Folders.from_environment(), download=False))
    uses = config.get("use") or {}
    if variant:
        uses = {**uses, **(config["variants"][variant].get("use") or {})}
    return data, {u: {k: v for k, v in p.items() if k != "from"} for u, p in uses.items()}


def least(function: Callable[[], Any], repeats: int = 15, calls: int = 1) -> float:
    """Least CPU seconds of a call: at least three repeats, then up to `repeats` within 0.5 s."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or (len(times) < repeats and time.perf_counter() - begin < 0.5):
        start = time.process_time()
        for _ in range(calls):
            function()
        times.append((time.process_time() - start) / calls)
    return min(times)


def arithmetic(machine: LocalLandmarks, rows: np.ndarray) -> float:
    """Seconds per row of the machine's products and exponentials, as computed by NumPy."""
    labels = np.zeros(len(rows), np.int64)
    machine.router.route(rows, labels)
    landmarks = machine.leaves[labels, 1].mean()
    entry, exponential = rates(machine.features.shape[1])
    seconds = landmarks * (entry + exponential)
    if isinstance(machine.router, KMeansTree):
        seconds += machine.router.distances()[labels].mean() * rates(rows.shape[1])[0]
    return seconds


def rates(n_features: int) -> tuple[float, float]:
    """Seconds per entry of a float32 matrix product, and per float32 exponential."""
    left, right = (np.ones(shape, np.float32) for shape in ((8000, n_features), (n_features, 1024)))
    block = left @ right
    entry = least(lambda: np.matmul(left, right, out=block)) / block.size
    block[:] = -1.0
    return entry, least(lambda: np.exp(block)) / block.size


def show(label: str, model: Any, data: Dataset, rows: np.ndarray, compiled: bool = True) -> None:
    """Fit the model and print its line."""
    start = time.process_time()
    model.fit(data.X_train, data.y_train)
    fit = time.process_time() - start
    accuracy = 100 * np.mean(model.predict(data.X_test) == data.y_test)
    weights = np.ones(rows.shape[1], np.float32)
    unit = least(lambda: rows @ weights, 100)
    seconds = least(lambda: model.predict(rows))
    unit = min(unit, least(lambda: rows @ weights, 100))
    one = 1e6 * least(lambda: model.predict(rows[:1]), 20, 10)
    text = f"{label:26} {accuracy:7.2f} {1e9 * seconds / len(rows):9.1f} {seconds / unit:9.1f}"
    text += f" {fit:7.2f} {one:7.0f}"
    if compiled:
        evaluate, row = model.compile(), rows[0]
        text += f" {1e6 * least(lambda: evaluate(row), 20, 50):6.1f}"
        many = np.tile(rows, (1 + MILLION // len(rows), 1))[:MILLION]
        seconds_a_row = least(lambda: model.predict(many), 3) / MILLION
        text += f" {seconds_a_row / arithmetic(model._machine, rows):8.2f}"
    print(text, flush=True)


def compare(name: str, svc: bool) -> None:
    """Print the lines of all machines on a data set."""
    data, use = load(name)
    machine = use["svm"]
    rows = np.ascontiguousarray(data.X_test[np.arange(ROWS) % data.X_test.shape[0]], np.float32)
    print(name)
    show("dcpred_trained", _trained(machine, use), data, rows)
    sizes = use.get("dcpred", {})
    for label, changes in ABLATIONS.items():
        show(label, DCPredClassifier(**machine, **sizes, **changes, random_state=0), data, rows)
    n_clusters = use.get("dcsvm", {}).get("n_clusters", 64)
    early = DCSVC(n_clusters, **machine, random_state=0)
    show("dcsvm_early", early, data, rows, compiled=False)
    show("exact", KernelSVC(**machine), data, rows, compiled=False)
    if svc:
        from sklearn.svm import SVC

        show("SVC", SVC(**machine, cache_size=4000), data, rows, compiled=False)
        try:
            from sklearnex.svm import SVC as IntelexSVC

            show("intelex", IntelexSVC(**machine), data, rows, compiled=False)
        except ImportError:
            print("scikit-learn-intelex is not installed: pip install kbench[intelex]")


def products(name: str) -> None:
    """Print held-out accuracy by the number of products, for leaves and landmarks of a data set."""
    data, use = load(name)
    order = np.random.RandomState(0).permutation(data.X_train.shape[0])[:12_000]
    held, rest = np.split(order, [len(order) // 5])
    for n_leaves in (4, 16):
        for m in (8, 16, 32):
            n = len(rest) // n_leaves
            kinds = {"none": {"pseudo": "none"}, "all": {"n_pseudo": m * (m + 1) // 2}}
            kinds |= {f"{k} rows": {"n_pseudo": max(1, n // k - m)} for k in (4, 8, 16)}
            print(f"{name}: {n_leaves} leaves of {n} rows, {m} landmarks:", end="")
            for label, products in kinds.items():
                model = DCPredClassifier(
                    n_leaves, n_landmarks=m, **use["svm"], **products, random_state=0
                ).fit(data.X_train[rest], data.y_train[rest])
                right = np.mean(model.predict(data.X_train[held]) == data.y_train[held])
                print(f" {label} {100 * right:.2f}", end="", flush=True)
            print()


def _trained(machine: dict[str, Any], use: dict[str, dict[str, Any]]) -> DCPredTrainedClassifier:
    return DCPredTrainedClassifier(**machine, **use.get("dcpred_trained", {}), random_state=0)


def main() -> None:
    names = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if "--products" in sys.argv:
        for name in names or NAMES:
            products(name)
        return
    print(
        f"{'':26} {'acc':>7} {'ns a row':>9} {'x linear':>9} {'fit':>7} {'one':>7} {'bare':>6}"
        f" {'million':>8}"
    )
    for name in names or NAMES:
        try:
            compare(name, "--svc" in sys.argv)
        except DataNotFoundError as error:
            print(error)


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    numba.set_num_threads(1)
    with threadpool_limits(1):
        main()
