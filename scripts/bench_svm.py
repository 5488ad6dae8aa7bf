"""KernelSVC beside scikit-learn's and scikit-learn-intelex's SVC, on one thread or more.

    python scripts/bench_svm.py [--only NAME ...] [--grid] [--cap SECONDS] [--repeats R]
                                [--solvers kernel_svc kernel_svc_free svc svc_intelex] [--first N]
                                [--threads T] [--pairs]

All solvers solve the same problem, with intercept, to tol=1e-3; `kernel_svc_free` solves the
problem without intercept, for which there is no competitor. Each fit runs in a process of its own
that first fits 2,000 rows, and is stopped at the cap on its CPU seconds. Seconds are medians of the
repeats, CPU and wall; a competitor that took more than a minute is not repeated.

The gap is LIBSVM's criterion, max up - min down over all points, from float64 kernel values and the
returned coefficients; above 1e-3 the problem is not solved. `times` is the solver's CPU seconds
divided by KernelSVC's. --grid runs the 25 settings of DC-SVM's Table 7 on ijcnn1 and prints
geometric means, in which a run that was stopped counts as the cap. --first limits the number of
rows. With --threads every solver has T threads and cores; compare wall seconds then. --pairs
compares KernelSVC on T threads with KernelSVC on one, in turns, and prints what T threads gain on
kernel values alone, which is less than T where cores share execution units.
Data sets that are not available are named and skipped.
"""

import argparse
import math
import multiprocessing
import os
import resource
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

# Threads are counted when the libraries are loaded.
_early = argparse.ArgumentParser(add_help=False)
_early.add_argument("--threads", type=int, default=1, metavar="T")
THREADS = _early.parse_known_args()[0].threads
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-THREADS:])

import numba  # noqa: E402
import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from sklearn.svm import SVC  # noqa: E402

from kbench.config import composer  # noqa: E402
from kbench.data import Folders, open_prepared, prepare, with_variant  # noqa: E402
from kbench.errors import DataNotFoundError, UnavailableError  # noqa: E402
from kbench.kernels import KernelMatrix, make_kernel  # noqa: E402
from kbench.methods import KernelSVC  # noqa: E402
from kbench.prediction import KernelExpansion  # noqa: E402

TOL = 1e-3
# Least CPU seconds, so that ratios stay finite where the clock shows 0.
TICK = 1e-3
# Exponents of C and gamma.
GRID = [-10, -6, 1, 6, 10]


@dataclass(frozen=True)
class Problem:
    """A training set and its machine."""

    name: str
    dataset: str
    C: float
    gamma: float
    variant: str | None = None
    first: int | None = None
    sparse: bool = False
    ours: dict[str, Any] = field(default_factory=dict)


PROBLEMS = [
    Problem("ijcnn1", "ijcnn1", 32, 2),
    Problem("a9a", "a9a", 1, 2**-5),
    Problem("covtype_30k", "covtype_93k", 32, 32, first=30_000),
    Problem("covtype_74k", "covtype_93k", 32, 32),
    Problem("cod-rna", "cod-rna", 32, 1),
    Problem("w8a", "w8a", 8, 2**-3, sparse=True),
    Problem("mnist_20k", "mnist", 8, 2**-6, variant="round_digits", first=20_000),
    Problem("covtype_30k_unsplit", "covtype_93k", 32, 32, first=30_000, ours={"split": False}),
    Problem("ijcnn1_large_C", "ijcnn1", 1024, 2**-6),
]


def kernel_svc(problem: Problem) -> SVC:
    return KernelSVC(C=problem.C, gamma=problem.gamma, tol=TOL, **problem.ours)


def kernel_svc_free(problem: Problem) -> SVC:
    return kernel_svc(problem).set_params(fit_intercept=False)


def svc(problem: Problem) -> SVC:
    return SVC(C=problem.C, gamma=problem.gamma, tol=TOL, cache_size=8000)


def svc_intelex(problem: Problem) -> SVC:
    from kbench.methods.external.intelex import IntelexSVC

    return IntelexSVC(C=problem.C, gamma=problem.gamma, tol=TOL, cache_size=8000)


SOLVERS: dict[str, Callable[[Problem], Any]] = {
    maker.__name__: maker for maker in (kernel_svc, kernel_svc_free, svc, svc_intelex)
}


def load(problem: Problem) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training rows, their classes as -1 and 1, test rows, their classes."""
    with composer() as hydra:
        config = hydra.compose([f"dataset={problem.dataset}"])["dataset"]
    config = with_variant({**config, "variant": problem.variant})
    data = open_prepared(prepare(config, Folders.from_environment(), download=False))
    X, y = data.X_train[: problem.first], data.y_train[: problem.first]
    classes = np.unique(y)
    X = sp.csr_array(X) if problem.sparse else np.asarray(X)
    return (
        X,
        np.where(y == classes[1], 1, -1),
        data.X_test,
        np.where(data.y_test == classes[1], 1, -1),
    )


def fit(
    make: Callable[[Problem], Any], problem: Problem, X: Any, y: Any, pipe: Any, cap: float
) -> None:
    """In a child process: fit, and send seconds and coefficients; killed at the cap."""
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cap), math.ceil(cap)))
    try:
        make(problem).fit(X[:2000], y[:2000])
        model = make(problem)
        cpu, wall = time.process_time(), time.perf_counter()
        model.fit(X, y)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    except UnavailableError as error:
        pipe.send(str(error))
        return
    model = getattr(model, "accelerated_", model)
    coef = model.dual_coef_
    coef = coef.toarray() if sp.issparse(coef) else np.asarray(coef)
    pipe.send((cpu, wall, np.asarray(model.support_), coef[0], float(model.intercept_[0])))


def run(make: Callable[[Problem], Any], problem: Problem, X: Any, y: np.ndarray, cap: float) -> Any:
    """Return what `fit` sends, None at the cap, or a message."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=fit, args=(make, problem, X, y, there, cap))
    child.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        child.join()
        killed = child.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        return None if killed else "ended without a result"
    finally:
        child.join()


@dataclass
class Evaluation:
    """Evaluates returned coefficients with float64 kernel values."""

    problem: Problem
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray

    def __post_init__(self) -> None:
        kernel = make_kernel("rbf", self.X, gamma=self.problem.gamma)
        self.exact = KernelMatrix(kernel, self.X, np.float64)

    def __call__(
        self, support: np.ndarray, coef: np.ndarray, intercept: float, coupled: bool
    ) -> str:
        beta = np.zeros(len(self.y))
        beta[support] = coef
        # Competitors return bounds rounded to their precision.
        beta = np.where(np.abs(np.abs(beta) - self.problem.C) < 1e-6 * self.problem.C,
                        np.sign(beta) * self.problem.C, beta)  # fmt: skip
        f = self.exact.product(support, beta[support])
        lower = np.where(self.y < 0, -self.problem.C, 0.0)
        upper = np.where(self.y > 0, self.problem.C, 0.0)
        e = self.y - f
        up, down = e[beta < upper].max(), e[beta > lower].min()
        gap = up - down if coupled else max(up, -down)
        objective = 0.5 * float(beta @ f) - float(np.abs(beta).sum())
        expansion = KernelExpansion(self.exact, support, coef[:, None], np.dtype(np.float64))
        predicted = np.where(expansion(self.X_test)[:, 0] + intercept > 0, 1, -1)
        accuracy = 100.0 * float(np.mean(predicted == self.y_test))
        return f"{gap:9.1e} {objective:15.4f} {len(support):7d} {accuracy:8.2f}"


def compare(problem: Problem, solvers: list[str], cap: float, repeats: int) -> dict[str, float]:
    """Print a line for each solver; return the CPU seconds of each (the cap if stopped)."""
    data = load(problem)
    evaluate = Evaluation(problem, *data)
    seconds: dict[str, float] = {}
    for name in solvers:
        runs: list[Any] = []
        while len(runs) < repeats:
            runs.append(run(SOLVERS[name], problem, data[0], data[1], cap))
            if not isinstance(runs[-1], tuple) or (len(runs) == 1 and runs[0][0] > 60):
                break
        label = f"{problem.name:20} {name:16}"
        if isinstance(runs[-1], str):
            print(f"{label} {runs[-1]}", flush=True)
            continue
        if runs[-1] is None:
            seconds[name] = cap
            ratio = f"> {cap / seconds['kernel_svc']:.0f}" if "kernel_svc" in seconds else ""
            print(f"{label} > {cap:.0f} s {ratio:>21}", flush=True)
            continue
        cpu = seconds[name] = max(TICK, statistics.median(r[0] for r in runs))
        wall = statistics.median(r[1] for r in runs)
        ratio = f"{cpu / seconds['kernel_svc']:.1f}" if "kernel_svc" in seconds else ""
        evaluation = evaluate(*runs[-1][2:], coupled=name != "kernel_svc_free")
        print(f"{label} {cpu:8.2f} {wall:8.2f} {ratio:>7} {evaluation}", flush=True)
    return seconds


def compare_threads(problem: Problem, repeats: int) -> None:
    """Print the seconds of KernelSVC on one thread and on THREADS."""
    X, y, *_ = load(problem)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=problem.gamma), X)
    rows = np.arange(1000)

    def kernel_values() -> None:
        for _ in range(3):
            kernel.product(rows, np.ones(1000))

    def solve() -> None:
        model = kernel_svc(problem).fit(X, y)
        coef = sp.csr_array(model.dual_coef_)
        solutions.append((coef.indices.tobytes(), coef.data.tobytes(), *model.intercept_))

    solutions: list[tuple[Any, ...]] = []
    seconds: dict[Any, list[float]] = {}
    for _ in range(1 + repeats):
        for work in (kernel_values, solve):
            for threads in (1, THREADS):
                numba.set_num_threads(threads)
                before = time.perf_counter()
                work()
                seconds.setdefault((work, threads), []).append(time.perf_counter() - before)
    # The first run of each compiles and fills caches.
    runs = {key: taken[1:] for key, taken in seconds.items()}
    one, several = (statistics.median(runs[solve, threads]) for threads in (1, THREADS))
    gain, most = (
        statistics.median(a / b for a, b in zip(runs[work, 1], runs[work, THREADS], strict=True))
        for work in (solve, kernel_values)
    )
    same = "the same" if len(set(solutions)) == 1 else "ANOTHER"
    print(
        f"{problem.name:20} one thread {one:.2f} s, {THREADS} threads {several:.2f} s: {gain:.2f} "
        f"times, kernel values alone {most:.2f} times; {same} machine",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], parents=[_early])
    parser.add_argument("--only", nargs="+", choices=[p.name for p in PROBLEMS], metavar="NAME")
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--cap", type=float, default=150.0, metavar="SECONDS")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first", type=int, metavar="N")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    arguments = parser.parse_args()
    chosen = [p for p in PROBLEMS if arguments.only is None or p.name in arguments.only]
    if arguments.grid:
        chosen = [] if arguments.only is None else chosen
    if arguments.pairs:
        if THREADS == 1:
            parser.error("--pairs needs --threads of at least 2, got 1")
        for problem in chosen:
            try:
                compare_threads(problem, arguments.repeats)
            except DataNotFoundError as error:
                print(error)
        return
    header = "cpu s   wall s   times       gap       objective     nSV accuracy"
    print(f"{'problem':20} {'solver':16}    {header}")

    def measure(problem: Problem) -> dict[str, float]:
        if arguments.first is not None:
            first = min(arguments.first, problem.first or arguments.first)
            problem = replace(problem, first=first)
        try:
            return compare(problem, arguments.solvers, arguments.cap, arguments.repeats)
        except DataNotFoundError as error:
            print(error)
            return {}

    for problem in chosen:
        measure(problem)
    if arguments.grid:
        rows = [
            measure(Problem(f"ijcnn1_2^{C}_2^{gamma}", "ijcnn1", 2.0**C, 2.0**gamma))
            for C in GRID
            for gamma in GRID
        ]
        for name in arguments.solvers:
            both = [row for row in rows if {name, "kernel_svc"} <= {*row}]
            if both:
                times = statistics.geometric_mean(row[name] / row["kernel_svc"] for row in both)
                capped = sum(row[name] >= arguments.cap for row in both)
                print(f"grid: {name} {times:.1f} times, {len(both)} runs, {capped} at the cap")


if __name__ == "__main__":
    main()
