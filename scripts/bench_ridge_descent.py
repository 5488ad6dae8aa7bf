"""Kernel ridge by steps and by CG: nanoseconds a kernel value, residuals, and sizes of blocks.

    python scripts/bench_ridge_descent.py [values] [covtype] [blocks]

All of them by default. One process, one thread, CPU seconds, all that a fit does included. values:
each solver on 20,000 x 54 normal rows, five seconds a fit, with each radial kernel. covtype: the
same on covtype_93k (gamma = 50 and lambda = 3.8e-7 n as in the ASkotch study) with the test error
at the end, if its data are available. blocks: steps and seconds of ASkotch on 1,000 rows to a
residual of 1e-3, for blocks of 25 to 400 rows.
"""

import sys
import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kbench.config import composer
from kbench.data import Folders, open_prepared, prepare
from kbench.errors import DataNotFoundError
from kbench.methods import (
    ASkotchClassifier,
    ASkotchRegressor,
    EigenPro3Classifier,
    EigenProClassifier,
    KernelRidgeClassifier,
    SDDClassifier,
)

N, D = 20_000, 54
SECONDS = 5.0
COVTYPE_SECONDS = 30.0
KERNELS = ("rbf", "laplacian", "matern32", "matern52")
BLOCK_ROWS, BLOCKS = 1000, (25, 50, 100, 200, 400)
SOLVERS: dict[str, tuple[type, dict[str, Any]]] = {
    "askotch": (ASkotchClassifier, {"random_state": 0}),
    "skotch": (ASkotchClassifier, {"random_state": 0, "accelerated": False}),
    "sdd": (SDDClassifier, {"random_state": 0, "max_iter": 10_000}),
    "eigenpro": (EigenProClassifier, {"random_state": 0, "max_iter": 10_000}),
    "eigenpro3": (EigenPro3Classifier, {"random_state": 0, "max_iter": 10_000}),
    "pcg nystrom": (KernelRidgeClassifier, {"solver": "pcg", "preconditioner": "nystrom"}),
    "pcg rpcholesky": (KernelRidgeClassifier, {"solver": "pcg", "preconditioner": "rpcholesky"}),
}


def fit_for(name: str, X: Any, y: np.ndarray, seconds: float, **settings: Any) -> tuple:
    """The estimator, fitted with that limit of seconds, and the CPU seconds that it took."""
    cls, own = SOLVERS[name]
    model = cls(**own, **settings, max_time=seconds)
    few = {"max_iter": 1} | ({"n_landmarks": 10} if "pcg" in name else {})
    cls(**own | settings | few).fit(X[:500], y[:500])  # compiles
    start = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - start


def show(label: str, model: Any, seconds: float, n: int, end: str = "") -> None:
    values = model.kernel_entries_
    print(
        f"{label:26s} {seconds:6.2f} s  {values / n**2:6.2f} n^2 values  "
        f"{1e9 * seconds / values:5.2f} ns each  {model.n_iter_:6d} steps{end}",
        flush=True,
    )


def values() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] > 0
    for kernel in KERNELS:
        for name in SOLVERS:
            model, seconds = fit_for(
                name, X, y, SECONDS, kernel=kernel, alpha=1e-6 * N, gamma=0.5 / D
            )
            show(f"{kernel}, {name}", model, seconds, N)


def covtype() -> None:
    try:
        with composer() as hydra:
            config = hydra.compose(["dataset=covtype_93k"])["dataset"]
        data = open_prepared(prepare(config, Folders.from_environment(), download=False))
    except DataNotFoundError as error:
        print(f"covtype_93k is left out: {error}")
        return
    X, y = data.X_train, np.asarray(data.y_train)
    for name in SOLVERS:
        model, seconds = fit_for(name, X, y, COVTYPE_SECONDS, alpha=3.8e-7 * len(y), gamma=50.0)
        wrong = 100 * np.mean(model.predict(data.X_test) != data.y_test)
        show(name, model, seconds, len(y), f"  test error {wrong:.2f} %")


def blocks() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(BLOCK_ROWS, 4))
    y = np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=len(X))
    for size in BLOCKS:
        model = ASkotchRegressor(
            0.1, gamma=0.2, block_size=min(size, len(X)), tol=1e-3, random_state=0
        )
        start = time.process_time()
        model.fit(X, y)
        show(f"blocks of {size}", model, time.process_time() - start, len(X))


def main() -> None:
    wanted = sys.argv[1:] or ["values", "covtype", "blocks"]
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        for part in wanted:
            {"values": values, "covtype": covtype, "blocks": blocks}[part]()


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
