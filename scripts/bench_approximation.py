"""Feature maps beside scikit-learn's, and ridge machines beside the exact one, in one process.

    python scripts/bench_approximation.py [nystrom] [fourier] [fastfood] [ridge] [FIGURE.png]

All four without a name; one thread.

nystrom, fourier: fit and transform of 10,000 uniform rows of d features, against `Nystroem` and
`RBFSampler` with as many components, in float32 and float64; CPU seconds, medians of three in
turns.
fastfood: the Walsh-Hadamard transform in nanoseconds an element, the whole map in nanoseconds a
feature for D = d', and dense random features by the same measure: where the columns cross, Fastfood
begins to pay. A file name that ends in .png draws them.
ridge: CPU seconds to fit every ridge machine on an approximate kernel matrix with its defaults, and
the exact one, of 2,000, 8,000 and 13,000 normal rows of 18 features, medians of three; and
RMSE of noisy targets at 2,000 other rows. No approximation should take longer than the exact one.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from threadpoolctl import threadpool_limits

from kbench.approximation import Fastfood, Nystrom, RandomFourierFeatures, walsh_hadamard
from kbench.config import composer
from kbench.run.planning import registry
from kbench.trace import Trace

N = 10_000  # rows
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)  # of rows that Fastfood transforms
ELEMENTS = 2**22  # of such rows together
RIDGE_ROWS = (2000, 8000, 13_000)
RIDGE_FEATURES, RIDGE_TEST_ROWS = 18, 2000
RIDGE = ("hss_krr", "meka", "meka_psd", "meka_galerkin", "nystrom", "kmeans_nystrom")
RIDGE += ("ensemble_nystrom", "randomized_nystrom", "svd", "rks", "fastfood", "bka", "falkon")
RIDGE += ("dckrr", "dcpred_krr", "dcpred_trained_regressor")


def seconds(*calls: Callable[[], object]) -> list[float]:
    """Median CPU seconds of three calls of each, in turns."""
    measured = []
    for _ in range(3):
        for call in calls:
            start = time.process_time()
            call()
            measured.append(time.process_time() - start)
    return list(np.median(np.reshape(measured, (3, -1)), axis=0))


def compare(name: str, d: int, m: int, dtype: type) -> None:
    """Print a line: ours against scikit-learn's."""
    X = np.random.default_rng(0).uniform(size=(N, d)).astype(dtype)
    gamma = 10.0 / d
    if name == "nystrom":
        own = Nystrom(m, gamma=gamma, random_state=0)
        peer = Nystroem(gamma=gamma, n_components=m, random_state=0)
    else:
        own = RandomFourierFeatures(m, gamma=gamma, random_state=0)
        peer = RBFSampler(gamma=gamma, n_components=m, random_state=0)
    own.fit(X[:100]).transform(X[:100])
    theirs, mine = seconds(lambda: peer.fit_transform(X), lambda: own.fit_transform(X))
    print(
        f"{name:8} d={d:4} m={m:5} {np.dtype(dtype).name}  scikit-learn {theirs:6.2f} s   "
        f"kbench {mine:6.2f} s   ratio {theirs / mine:5.1f}",
        flush=True,
    )


def fit_seconds(machine: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Median CPU seconds of three fits, without those of measuring the kernel error."""
    spent = []
    for _ in range(3):
        trace, start = Trace(), time.process_time()
        machine.fit(X, y, trace=trace)
        spent.append(time.process_time() - start - trace.paused_cpu_s)
    return float(np.median(spent))


def ridge() -> None:
    """Print seconds and RMSE of the ridge machines for each number of rows."""
    rng = np.random.default_rng(0)
    n = max(RIDGE_ROWS)
    X = rng.normal(size=(n + RIDGE_TEST_ROWS, RIDGE_FEATURES))
    truth = np.sin(X @ rng.normal(size=RIDGE_FEATURES)) + X[:, 0] * X[:, 1]
    y = truth + 0.3 * rng.normal(size=len(truth))
    with composer() as hydra:
        machines = {}
        for name in ("krr", *RIDGE):
            words = [f"method={name}", "dataset=file", "use=none", "tuned=none"]
            config = hydra.compose(words)["method"]
            estimator = config["estimator"]
            estimator = estimator if isinstance(estimator, str) else estimator["regression"]
            target = registry.target(estimator, config.get("parts"))
            params = {k: v for k, v in config.items() if k not in registry.RESERVED}
            machines[name] = registry.build(target, params, 0)
    for machine in machines.values():
        machine.fit(X[:1000], y[:1000]).predict(X[:10])  # compiles
    for rows in RIDGE_ROWS:
        exact = 0.0
        for name, machine in machines.items():
            spent = fit_seconds(machine, X[:rows], y[:rows])
            exact = exact or spent  # the exact machine is the first one
            rmse = np.sqrt(np.mean((machine.predict(X[n:]) - truth[n:]) ** 2))
            print(
                f"{name:25} {rows:6} rows {spent:8.2f} s  {spent / exact:6.2f} of the exact one's  "
                f"RMSE {rmse:.4f}{'  SLOWER' if spent > 1.1 * exact else ''}",
                flush=True,
            )


def fastfood(figure: str | None) -> None:
    """Print nanoseconds by length d', and draw them."""
    measured = []
    print("d' = D   transform ns/element   fastfood ns/feature   dense ns/feature")
    for length in LENGTHS:
        n = ELEMENTS // length
        X = np.random.default_rng(0).normal(size=(n, length)).astype(np.float32)
        structured = Fastfood(length, gamma=1.0 / length, random_state=0).fit(X)
        dense = RandomFourierFeatures(length, gamma=1.0 / length, random_state=0).fit(X)
        out = np.empty((n, length), np.float32)
        walsh_hadamard(X[:64])
        transform, fast, plain = (
            1e9 * value / X.size
            for value in seconds(
                lambda X=X: walsh_hadamard(X),
                lambda X=X, map=structured, out=out: map.fill(X, out),
                lambda X=X, map=dense, out=out: map.fill(X, out),
            )
        )
        measured.append((fast, plain))
        print(f"{length:6} {transform:22.2f} {fast:21.2f} {plain:18.2f}", flush=True)
    if figure is not None:
        draw_crossover(measured, figure)


def draw_crossover(measured: list[tuple[float, float]], figure: str) -> None:
    """Nanoseconds a feature of Fastfood and of dense features, by d' = D."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(5, 3.5), layout="constrained")
    axes = canvas.subplots()
    for name, values in zip(("Fastfood", "dense"), zip(*measured, strict=True), strict=True):
        axes.loglog(LENGTHS, values, marker="o", label=name)
    axes.set(xlabel="d' = D", ylabel="nanoseconds a feature")
    axes.legend()
    canvas.savefig(figure)


def main() -> None:
    figures = [name for name in sys.argv[1:] if name.endswith(".png")]
    chosen = [name for name in sys.argv[1:] if name not in figures]
    chosen = chosen or ["nystrom", "fourier", "fastfood", "ridge"]
    for name in ("nystrom", "fourier"):
        if name in chosen:
            for d, m in ((22, 512), (54, 2048)):
                for dtype in (np.float32, np.float64):
                    compare(name, d, m, dtype)
    if "fastfood" in chosen:
        fastfood(figures[0] if figures else None)
    if "ridge" in chosen:
        ridge()


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    with threadpool_limits(1):
        main()
