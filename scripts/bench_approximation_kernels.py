"""Approximate kernel matrices and kernel ridge on them: seconds, errors, memory, scaling.

    python scripts/bench_approximation_kernels.py [build] [product] [scaling] [ridge] [ROWS]
                                                  [FIGURE.png] (default: all)

build: MEKA beside Nystrom of growing rank on ijcnn1 and covtype_93k (if the files are available):
how long either takes to reach the same error. product: MEKA's matvec beside a copy of the same
bytes. scaling: build time and bytes of MEKA on 25k ... 400k rows of covtype_like, with the fitted
exponents; a file name that ends in .png draws them. ridge: kernel ridge on ROWS (581,012) rows of
covtype_like by MEKA (direct and by preconditioned conjugate gradients) beside FALKON, and by the
MEKA of lower rank that reaches FALKON's RMSE. CPU seconds on one thread, medians of three where
they are short.
"""

import resource
import sys
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from kbench.approximation import MEKA, LowRankKernel, SpectralNystrom, kernel_error, sampled_rows
from kbench.config import composer
from kbench.data import Dataset, Folders, open_prepared, prepare
from kbench.kernels import KernelMatrix, make_kernel
from kbench.methods import ApproximateRidgeClassifier, FalkonClassifier

PROBLEMS = (("ijcnn1", 1.0, 128, 10), ("covtype_93k", 10.0, 256, 15))  # gamma, rank, clusters
PRODUCT_ROWS = 200_000
SIZES = (25_000, 50_000, 100_000, 200_000, 400_000)
RIDGE_ROWS = 581_012


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Median CPU seconds of a call."""
    measured = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        measured.append(time.process_time() - start)
    return float(np.median(measured))


def load(name: str, *overrides: str) -> Dataset:
    """The prepared data set."""
    with composer() as hydra:
        config = hydra.compose([f"dataset={name}", *overrides])["dataset"]
    return open_prepared(prepare(config, Folders.from_environment(), download=False))


def landscape(n: int) -> Dataset:
    """n training rows of covtype_like."""
    return load("covtype_like", f"dataset.n={n}")


def build(name: str, gamma: float, rank: int, n_clusters: int) -> None:
    X = load(name).X_train
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=gamma), X)
    rows = sampled_rows(len(X), 2000, np.random.RandomState(0))
    model = MEKA(rank, n_clusters=n_clusters, gamma=gamma, random_state=0)
    model.fit(X)
    taken = seconds(lambda: model.fit(X))
    goal = kernel_error(kernel, model.matrix_, rows)
    phases = "  ".join(f"{phase} {value:.2f}" for phase, value in model.timings_.items())
    print(
        f"{name}: MEKA rank {rank}: error {goal:.4f} in {taken:.2f} s ({phases} wall)", flush=True
    )
    while True:
        feature_map = SpectralNystrom(rank, gamma=gamma, random_state=0)
        spent = seconds(lambda: LowRankKernel(feature_map.fit(X), X), 1)  # noqa: B023
        error = kernel_error(kernel, LowRankKernel(feature_map, X), rows)
        print(f"{name}: Nystrom rank {rank}: error {error:.4f} in {spent:.2f} s", flush=True)
        if error <= goal or rank >= 1024:
            print(f"{name}: Nystrom / MEKA = {spent / taken:.1f}", flush=True)
            return
        rank *= 2


def product() -> None:
    X = landscape(PRODUCT_ROWS).X_train
    G = MEKA(256, n_clusters=15, gamma=4.0, random_state=0).fit(X).matrix_
    v = np.random.default_rng(0).normal(size=len(X))
    source = np.ones(G.nbytes_ // 8)
    target = np.empty_like(source)
    own, copy = seconds(lambda: G @ v, 9), seconds(lambda: np.copyto(target, source), 9)
    print(f"matvec of {G.nbytes_ / 2**20:.0f} MiB: {own:.4f} s, copy of as many bytes {copy:.4f} s")
    # W is read twice, a copy reads and writes.
    print(f"share of the memory bound: {copy / own:.0%}", flush=True)


def scaling(figure: str | None) -> None:
    taken, held = [], []
    for n in SIZES:
        X = landscape(n).X_train
        model = MEKA(128, n_clusters=10, gamma=4.0, random_state=0)
        taken.append(seconds(lambda: model.fit(X), 1))  # noqa: B023
        held.append(model.matrix_.nbytes_)
        print(f"n={n:7}: {taken[-1]:6.2f} s, {held[-1] / 2**20:6.0f} MiB", flush=True)
    exponents = [np.polyfit(np.log(SIZES), np.log(values), 1)[0] for values in (taken, held)]
    print("exponent of time: {:.2f}\nexponent of memory: {:.2f}".format(*exponents), flush=True)
    if figure is not None:
        draw_scaling(taken, held, exponents, figure)


def draw_scaling(
    taken: list[float],
    held: list[float],
    exponents: list[float],
    figure: str,
) -> None:
    """Seconds and MiB of a build by rows, with their exponents."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(8, 3.5), layout="constrained")
    panels = (("CPU seconds", taken), ("MiB held", [value / 2**20 for value in held]))
    for axes, (label, values), exponent in zip(
        canvas.subplots(1, 2), panels, exponents, strict=True
    ):
        axes.loglog(SIZES, values, marker="o", label=f"n^{exponent:.2f}")
        axes.set(xlabel="rows", ylabel=label)
        axes.set_xticks(SIZES, [f"{n // 1000}k" for n in SIZES])
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axes.legend()
    canvas.savefig(figure)


def ridge(n: int) -> None:
    data = landscape(n)
    options = {"alpha": 0.25, "error_rows": 0, "random_state": 0}
    large, small = (MEKA(rank, n_clusters=15, gamma=4.0) for rank in (256, 40))
    machines = {
        "MEKA, direct": ApproximateRidgeClassifier(large, **options),
        "MEKA, PCG": ApproximateRidgeClassifier(large, solver="pcg", **options),
        "MEKA, rank 40": ApproximateRidgeClassifier(small, solver="pcg", **options),
        "FALKON, 500": FalkonClassifier(500, gamma=4.0, **options),
    }
    for name, model in machines.items():
        spent = seconds(lambda: model.fit(data.X_train, data.y_train), 1)  # noqa: B023
        rmse = np.sqrt(np.mean((model.decision_function(data.X_test) - data.y_test) ** 2))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{name:14} {spent:6.1f} s  {model.n_iter_:4} iterations  RMSE {rmse:.4f}  "
            f"peak so far {peak:.2f} GiB",
            flush=True,
        )


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()]
    figures = [word for word in sys.argv[1:] if word.endswith(".png")]
    chosen = [word for word in sys.argv[1:] if not word.isdigit() and word not in figures]
    chosen = chosen or ["build", "product", "scaling", "ridge"]
    if "build" in chosen:
        for problem in PROBLEMS:
            build(*problem)
    if "product" in chosen:
        product()
    if "scaling" in chosen:
        scaling(figures[0] if figures else None)
    if "ridge" in chosen:
        ridge(sizes[0] if sizes else RIDGE_ROWS)


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    with threadpool_limits(1):
        main()
