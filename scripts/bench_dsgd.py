"""Doubly stochastic gradients: ingredients, a step, mnist beside scikit-learn, memory of a stream.

    python scripts/bench_dsgd.py [numbers] [step] [virtual] [mnist] [stream] [growth] [forest]

All of them by default. One process, one thread, CPU seconds. numbers: nanoseconds for a normal
number and for a cosine or sine, each beside NumPy's. step: feature products of a batch of 4,096
rows, d = 100, with a block of 2,048 features, drawing included, against sgemm's rate.
virtual: microseconds of a virtual example of 28 x 28 pixels. mnist: one pass (unit rows, PCA to
100) of 16 batches with 2^10 features each against RBFSampler(2^14) and SGDClassifier.partial_fit on
equal batches. stream: rows a second and growth of the resident memory over 10^7 rows. growth: the
exponents with which seconds and bytes grow in the rows of one pass over covtype_like (Dai et al.,
section 6), 4,000 to 32,000 of them. forest: seconds until the test error on covtype_93k is within a
point of the exact SVM's (C = 32, gamma = 32), or the error after a minute; KernelSVC beside them.
mnist and forest are skipped if their data are not available.
"""

import contextlib
import functools
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from kbench.approximation.seeded import philox
from kbench.approximation.seeded.named_blocks import seeded_features
from kbench.config import composer
from kbench.data import Folders, open_prepared, prepare
from kbench.errors import DataNotFoundError
from kbench.methods import (
    NORMA,
    DoublySGDClassifier,
    KernelSDCA,
    KernelSVC,
    PegasosClassifier,
    SDCAClassifier,
)
from kbench.methods.stochastic.virtual_examples import VirtualExamples
from kbench.trace import Trace

BATCH, BLOCK, D = 4096, 2048, 100
N_FEATURES, STEPS = 2**14, 16  # of the pass over mnist
STREAM_ROWS, CHUNK = 10**7, 50_000
SIZES = (4000, 8000, 16000, 32000)
MINUTE = 60.0  # seconds that a machine may take for `forest`


def seconds(call: Callable[[], object], repeats: int = 7) -> float:
    """Median CPU seconds of `repeats` calls, after an untimed one."""
    call()
    measured = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        measured.append(time.process_time() - start)
    return float(np.median(measured))


def numbers() -> None:
    out = np.empty(1 << 20, np.float32)
    generator = np.random.Generator(np.random.Philox(1))
    ours = seconds(lambda: philox.normals(1, 0, 0, out))
    theirs = seconds(lambda: generator.standard_normal(len(out), dtype=np.float32))
    print(f"normal       {ours / len(out) * 1e9:6.2f} ns   NumPy {theirs / len(out) * 1e9:6.2f} ns")
    tile = np.random.default_rng(0).uniform(-9, 9, (128, 2048)).astype(np.float32)
    ours = seconds(lambda: philox.cosines_and_sines(tile, np.float32(1.0)))
    theirs = seconds(lambda: np.cos(tile))
    print(
        f"cos or sin   {ours / tile.size * 1e9:6.2f} ns   NumPy {theirs / tile.size * 1e9:6.2f} ns"
    )


def step() -> None:
    square = np.random.default_rng(0).normal(size=(4096, 4096)).astype(np.float32)
    peak = 2 * 4096**3 / seconds(lambda: square @ square, 3)
    X = square[:BATCH, :D].copy()
    features = seeded_features("rbf", D, BLOCK, 0, 0.01)
    coef, values = square[:BLOCK, :10].copy(), np.zeros((BATCH, 10))
    spent = seconds(lambda: features.add(0, X, coef, values))
    products = 2 * BATCH * (D * BLOCK // 2 + BLOCK * 10)
    print(
        f"sgemm {peak / 1e9:.0f} GFLOP/s; feature products of a block {spent * 1e3:.1f} ms, "
        f"{products / spent / peak:.0%} of that rate"
    )


def mnist() -> None:
    X, y, X_test, y_test = read("mnist")
    X, X_test = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (X, X_test))
    axes = np.linalg.eigh(X.T @ X)[1][:, -D:]
    X, X_test = X @ axes, X_test @ axes

    start = time.process_time()
    model = DoublySGDClassifier(
        gamma=1.0, block_size=N_FEATURES // STEPS, batch_size=len(y) // STEPS, random_state=0
    ).fit(X, y)
    ours = time.process_time() - start
    print(f"doubly_sgd           {ours:6.1f} s   error {1 - model.score(X_test, y_test):.2%}")

    order = np.random.RandomState(0).permutation(len(y))
    start = time.process_time()
    sampler = RBFSampler(gamma=1.0, n_components=N_FEATURES, random_state=0).fit(X[:1])
    linear = SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0)
    for rows in np.array_split(order, STEPS):
        linear.partial_fit(sampler.transform(X[rows]), y[rows], classes=np.arange(10))
    theirs = time.process_time() - start
    parts = [sampler.transform(X_test[i : i + BATCH]) for i in range(0, len(X_test), BATCH)]
    error = 1 - np.mean(np.concatenate([linear.predict(part) for part in parts]) == y_test)
    print(f"RBFSampler + SGD     {theirs:6.1f} s   error {error:.2%}   ratio {theirs / ours:.1f}")


def stream() -> None:
    model = DoublySGDClassifier(
        block_size=256, batch_size=CHUNK, max_blocks=8, gamma=0.1, random_state=0
    )
    rng = np.random.default_rng(0)
    start, first = time.process_time(), 0
    for k in range(STREAM_ROWS // CHUNK):
        X = rng.standard_normal((CHUNK, 20), np.float32)
        model.partial_fit(X, X[:, 0] * X[:, 1] > 0, classes=[False, True])
        if k == 9:
            first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rate = STREAM_ROWS / (time.process_time() - start)
    last = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{STREAM_ROWS:.0e} rows, {rate:,.0f} a second; peak resident {last / 1024:.0f} MiB, "
        f"of that {(last - first) / 1024:.1f} MiB after the first ten chunks; "
        f"accuracy {model.score(X, X[:, 0] * X[:, 1] > 0):.2%}"
    )


def virtual() -> None:
    X = np.random.default_rng(0).random((BATCH, 784), np.float32)
    rows, copies = np.arange(BATCH), np.ones(BATCH, np.intp)
    for kind in ("shifts", "elastic"):
        make = VirtualExamples(kind, 1.0, 784, 0)
        spent = seconds(functools.partial(make, X, rows, copies))
        print(f"{kind:12} {spent / BATCH * 1e6:6.1f} us an example")


def growth() -> None:
    machines = {
        "doubly_sgd": DoublySGDClassifier(gamma=4.0, block_size=256, batch_size=256),
        "norma": NORMA(gamma=4.0, batch_size=256),
        "k_sdca": KernelSDCA(gamma=4.0, batch_size=256),
        "r_pegasos": PegasosClassifier(gamma=4.0, batch_size=256),
        "n_pegasos": PegasosClassifier(features="nystrom", gamma=4.0, batch_size=256),
    }
    X, y = make_rows(SIZES[-1])
    for name, machine in machines.items():
        spent, model_bytes = [], []
        for n in SIZES:
            model = clone(machine).set_params(random_state=0)
            spent.append(seconds(functools.partial(model.fit, X[:n], y[:n]), 1))
            model_bytes.append(model.model_bytes_)
        exponents = [
            np.polyfit(np.log(SIZES), np.log(value), 1)[0] for value in (spent, model_bytes)
        ]
        print(
            f"{name:12} seconds n^{exponents[0]:.2f} ({spent[-1]:.2f} s), "
            f"bytes n^{exponents[1]:.2f} ({model_bytes[-1] / 2**20:.2f} MiB)"
        )


class Enough(Exception):
    """Ends a fit: its test error is reached, or its time is over."""


def forest() -> None:
    X, y, X_test, y_test = read("covtype_93k")
    exact = KernelSVC(C=32.0, gamma=32.0, fit_intercept=False)
    problem = {"gamma": 32.0, "nu": 1.0 / (32.0 * len(y)), "random_state": 0}
    machines = {
        "k_sdca": KernelSDCA(n_epochs=1000, **problem),
        "norma": NORMA(n_epochs=1000, **problem),
        "r_sdca": SDCAClassifier(4096, max_iter=1000, **problem),
        "doubly_sgd": DoublySGDClassifier(
            gamma=20.0, block_size=4096, batch_size=8192, ridge=1e-5, n_epochs=1000, random_state=0
        ),
    }
    for machine in (exact, *machines.values()):
        passes = dict.fromkeys(machine.get_params().keys() & {"n_epochs", "max_iter"}, 1)
        with warnings.catch_warnings(action="ignore"):
            clone(machine).set_params(**passes).fit(X[:1000], y[:1000]).predict(X[:1000])
    start = time.process_time()
    exact.fit(X, y)
    spent, error = time.process_time() - start, 1 - exact.score(X_test, y_test)
    print(f"kernel_svc   {spent:6.1f} s   error {error:.2%}")
    for name, machine in machines.items():
        spent, reached = fit_until(machine, X, y, X_test, y_test, error + 0.01, MINUTE)
        print(f"{name:12} {spent:6.1f} s   error {reached:.2%}")


def fit_until(
    machine: Any,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    target: float,
    limit: float,
) -> tuple[float, float]:
    """CPU seconds of a fit until its test error is `target` or they exceed `limit`, and the error.

    The error is computed at most whenever the seconds have grown by a fifth, and its own time is
    not counted.
    """
    start = time.process_time()
    evaluation = due = spent = 0.0
    error = 1.0

    def evaluate(_: float, state: dict[str, Any]) -> None:
        nonlocal evaluation, due, spent, error
        now = time.process_time()
        if now - start - evaluation < due:
            return
        spent = now - start - evaluation
        error = float(np.mean(state["predict"](X_test) != y_test))
        evaluation += time.process_time() - now
        due = 1.2 * spent
        if error <= target or spent > limit:
            raise Enough

    with contextlib.suppress(Enough):
        machine.fit(X, y, trace=Trace(evaluate))
    return spent, error


def read(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test rows of a data set, dense float32, and their targets."""
    with composer() as hydra:
        config = hydra.compose([f"dataset={name}"])["dataset"]
    data = open_prepared(prepare(config, Folders.from_environment(), download=False))
    X, X_test = (
        np.asarray(part.toarray() if hasattr(part, "toarray") else part, np.float32)
        for part in (data.X_train, data.X_test)
    )
    return X, np.asarray(data.y_train), X_test, np.asarray(data.y_test)


def make_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of covtype_like and their labels."""
    with composer() as hydra:
        config = hydra.compose(["dataset=covtype_like", f"dataset.n={n}", "dataset.n_test=10"])
    data = open_prepared(prepare(config["dataset"], Folders.from_environment()))
    return np.asarray(data.X_train), np.asarray(data.y_train)


SECTIONS = {
    "numbers": numbers,
    "step": step,
    "virtual": virtual,
    "mnist": mnist,
    "stream": stream,
    "growth": growth,
    "forest": forest,
}


def main() -> None:
    for name in sys.argv[1:] or SECTIONS:
        try:
            SECTIONS[name]()
        except DataNotFoundError as error:
            print(error)


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    with threadpool_limits(limits=1):
        main()
