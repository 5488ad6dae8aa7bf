"""The linear solver beside LIBLINEAR, in one process on one thread.

    python scripts/bench_linear.py [gaussian] [fourier]      (default: both)

50,000 rows of 1,000 dense float32 features, hinge loss, C = 1, no intercept: Gaussian features with
noisy linear labels, and random Fourier features of rows with labels from a smooth function. Both
stop at max PG - min PG <= tol, PG the projected gradient of the dual; beside the CPU seconds stands
the primal objective, which the optimum does not exceed. Memory is what a fit adds to the peak of
its process; every fit has a process of its own, and the rows themselves (191 MiB) are not counted.
"""

import multiprocessing
import resource
import sys
import time

import numpy as np
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from kbench.approximation import RandomFourierFeatures
from kbench.solvers import solve_linear_dual

N, D, TOL = 50_000, 1_000, 0.01


def rows(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """X : (n, D) float32 and y : (n,) of -1, +1."""
    rng = np.random.default_rng(0)
    if name == "gaussian":
        # In place and in float32: a peak of memory made here would hide the solvers'.
        X = rng.standard_normal((n, D), dtype=np.float32)
        X /= np.float32(np.sqrt(D))
        score = X @ rng.standard_normal(D, dtype=np.float32) + 0.5 * rng.standard_normal(n)
    else:
        inputs = rng.uniform(size=(n, 8)).astype(np.float32)
        X = RandomFourierFeatures(D, gamma=4.0, random_state=0).fit_transform(inputs)
        score = np.sin(9.0 * inputs[:, 0]) + inputs[:, 1] - 0.5 + 0.3 * rng.standard_normal(n)
    return X, np.where(score > 0, 1.0, -1.0)


def ours(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
    """w and the number of passes."""
    C = np.ones(len(y))
    result = solve_linear_dual(X, y[:, None], C, np.random.RandomState(0), tol=TOL)
    return result.coef[:, 0], result.n_iter


def liblinear(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
    """w and the number of passes."""
    model = LinearSVC(loss="hinge", dual=True, fit_intercept=False, tol=TOL, random_state=0)
    model.fit(X, y)
    return model.coef_[0], model.n_iter_


def measure(name: str, solver: str, n: int, connection) -> None:
    """Send (CPU seconds, MiB added to the peak, primal objective, passes)."""
    solve = {"kbench": ours, "liblinear": liblinear}[solver]
    X, y = rows(name, n)
    with threadpool_limits(1):
        solve(X[:200], y[:200])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cpu = time.process_time()
        w, passes = solve(X, y)
        cpu = time.process_time() - cpu
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    primal = 0.5 * w @ w + np.maximum(1.0 - y * (X @ w), 0.0).sum()
    connection.send((cpu, added, primal, passes))


def main() -> None:
    context = multiprocessing.get_context("spawn")
    print("features   solver      cpu s   MiB added   primal objective   passes   ratio")
    for name in sys.argv[1:] or ("gaussian", "fourier"):
        seconds = {}
        for solver in ("liblinear", "kbench"):
            receiver, sender = context.Pipe(duplex=False)
            child = context.Process(target=measure, args=(name, solver, N, sender))
            child.start()
            cpu, added, primal, passes = receiver.recv()
            child.join()
            seconds[solver] = cpu
            print(
                f"{name:10} {solver:10} {cpu:6.2f} {added:11.1f} {primal:18.4f} {passes:8} "
                f"{seconds['liblinear'] / cpu:7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
