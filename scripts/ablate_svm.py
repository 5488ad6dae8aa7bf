"""What each acceleration of the exact solver gains: it is switched off alone, and the fit compared.

    python scripts/ablate_svm.py [--only NAME ...] [--switch NAME ...] [--quick] [--free]
                                 [--everyday] [--threads T] [--repeats R] [--limit SECONDS]
                                 [--small]

The problems are the nine of `scripts/bench_svm.py`, with intercept (--free: without), to tol=1e-3;
--everyday takes those of `scripts/bench_everyday.py` with two classes, C = 100, gamma="scale".
A line has the seconds without the acceleration divided by those with it, CPU seconds on one thread
and wall seconds with --threads; then the same ratio for kernel values and for steps, which do not
depend on what else the machine does. Ratios above 1 are gains. Seconds are the median of R pairs,
in turns; after a ratio above 2, and where the solution, the kernel values and the steps are the
same because the acceleration does not apply, a pair is not repeated. A fit without the acceleration
is stopped at the limit (shown as ">"). A violation above the tolerance is printed at the end.
--quick takes the first 8,000 rows. --small takes tables that scikit-learn ships instead, and
switches off the exact optimum of small problems, the interior-point method, and both; the last
number of a line is the duality gap in parts of the objective.

Switches are fields of `kbench.solvers.box_dual.options.SolverOptions` and
`kbench.kernels.layout.Packing`, `groups` (the argument `split`), `float_order` (inner solvers whose
argmax is a plain running maximum) and `work_sharing` (with --threads: T threads against one).
"""

import argparse
import contextlib
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_early = argparse.ArgumentParser(add_help=False)
_early.add_argument("--threads", type=int, default=1, metavar="T")
THREADS = _early.parse_known_args()[0].threads
# Threads are counted when the libraries are loaded, by bench_svm from the same argument.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import bench_everyday  # noqa: E402
import bench_svm  # noqa: E402
import numba  # noqa: E402
import numpy as np  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

from kbench.errors import DataNotFoundError  # noqa: E402
from kbench.kernels import KernelMatrix  # noqa: E402
from kbench.kernels.functions.rbf import RBF  # noqa: E402
from kbench.kernels.layout import Packing  # noqa: E402
from kbench.methods import KernelSVC  # noqa: E402
from kbench.solvers import BoxDualResult, solve_box_dual  # noqa: E402
from kbench.solvers.box_dual.options import ALL_ON, SolverOptions  # noqa: E402
from kbench.solvers.small import dual, exact_optimum, face  # noqa: E402

QUICK_ROWS = 8000
EVERYDAY = ("one-hot table", "sparse binary, 3 %", "noise", "heavy tails", "linear classes")


@numba.njit(cache=True, fastmath={"contract", "nsz", "arcp", "nnan"}, error_model="numpy")
def plain_pair_steps(K, beta, e, lower, upper, diagonal, stop, max_steps, _epsilon):
    """`pair_steps` of a classifier with running maxima of floats, in the precision of K."""
    q = len(e)
    v = e.astype(K.dtype)
    for step in range(max_steps):
        i, k_low = -1, -1
        for k in range(q):
            if beta[k] < upper[k] and (i < 0 or v[k] > v[i]):
                i = k
            if beta[k] > lower[k] and (k_low < 0 or v[k] < v[k_low]):
                k_low = k
        if i < 0 or k_low < 0 or v[i] - v[k_low] <= stop:
            e[:] = v
            return step
        j, best = -1, K.dtype.type(0)
        for k in range(q):
            way = v[i] - v[k]
            total = diagonal[i] + diagonal[k]
            h = max(total - 2.0 * K[i, k], 1e-6 * total)
            s = min(min(way / h, upper[i] - beta[i]), beta[k] - lower[k])
            gain = s * (way - 0.5 * h * s)
            if way > 0.0 and gain > best:
                j, best = k, gain
        if j < 0:
            e[:] = v
            return step
        total = diagonal[i] + diagonal[j]
        h = max(total - 2.0 * K[i, j], 1e-6 * total)
        up, down = upper[i] - beta[i], beta[j] - lower[j]
        move = min(min((v[i] - v[j]) / h, up), down)
        beta[i] = upper[i] if up - move <= 1e-14 * (upper[i] - lower[i]) else beta[i] + move
        beta[j] = lower[j] if down - move <= 1e-14 * (upper[j] - lower[j]) else beta[j] - move
        t = K.dtype.type(move)
        for k in range(q):
            v[k] += t * (K[j, k] - K[i, k])
    e[:] = v
    return max_steps


@numba.njit(cache=True, fastmath={"contract", "nsz", "arcp", "nnan"}, error_model="numpy")
def plain_coordinate_steps(K, beta, e, lower, upper, diagonal, stop, max_steps, _epsilon):
    """`coordinate_steps` of a classifier with running maxima of floats, in the precision of K."""
    q = len(e)
    v = e.astype(K.dtype)
    for step in range(max_steps):
        i, best, violation = -1, 0.0, 0.0
        for k in range(q):
            move = min(max(v[k] / diagonal[k], lower[k] - beta[k]), upper[k] - beta[k])
            gain = move * (v[k] - 0.5 * diagonal[k] * move)
            if move != 0.0:
                violation = max(violation, abs(v[k]))
            if gain > best:
                i, best = k, gain
        if i < 0 or violation <= stop:
            e[:] = v
            return step
        new = min(max(beta[i] + v[i] / diagonal[i], lower[i]), upper[i])
        delta = K.dtype.type(new - beta[i])
        if delta == 0.0:
            e[:] = v
            return step
        beta[i] = new
        for k in range(q):
            v[k] -= delta * K[i, k]
    e[:] = v
    return max_steps


@dataclass(frozen=True)
class Setting:
    """How a fit differs from the full solver."""

    options: SolverOptions = ALL_ON
    packing: Packing = field(default_factory=Packing)
    groups: bool = True
    threads: int = THREADS
    # Whether only time can differ, never the solution or a count.
    only_time: bool = False


def switches(coupled: bool) -> dict[str, Setting]:
    """Each acceleration switched off."""
    plain = plain_pair_steps if coupled else plain_coordinate_steps
    settings = {
        "nested_subsets": Setting(SolverOptions(nested_subsets=False)),
        "groups": Setting(groups=False),
        "duplicates": Setting(SolverOptions(duplicates=False)),
        "whole_set": Setting(SolverOptions(whole_set=1024)),
        "keep_half": Setting(SolverOptions(keep_half=False)),
        "face_newton": Setting(SolverOptions(face_newton=False)),
        "stored_matrix": Setting(SolverOptions(stored_matrix=False)),
        "recompute_rows": Setting(SolverOptions(recompute_rows=False)),
        "refinement": Setting(SolverOptions(refinement=False)),
        "float_order": Setting(SolverOptions(inner_steps=plain), only_time=True),
        "bit_layout": Setting(packing=Packing(bits=False)),
        "byte_layout": Setting(packing=Packing(bytes=False)),
        "work_sharing": Setting(threads=1, only_time=True),
    }
    if not coupled:
        del settings["stored_matrix"]
    if THREADS == 1:
        del settings["work_sharing"]
    return settings


@dataclass(frozen=True)
class Fit:
    """Seconds of a fit, CPU seconds on one thread and wall seconds on more, and its result."""

    seconds: float
    result: BoxDualResult


def fit(
    problem: bench_svm.Problem, X: Any, y: np.ndarray, coupled: bool, setting: Setting, limit: float
) -> Fit:
    """Solve the problem; CPU seconds on one thread, wall seconds on more."""
    numba.set_num_threads(setting.threads)
    clock: Callable[[], float] = time.process_time if THREADS == 1 else time.perf_counter
    start = clock()
    kernel = KernelMatrix(RBF(problem.gamma, packing=setting.packing), X)
    result = solve_box_dual(
        kernel,
        y.astype(np.float64),
        problem.C,
        intercept=coupled,
        tol=bench_svm.TOL,
        split=setting.groups and problem.ours.get("split", True),
        max_time=limit,
        options=setting.options,
    )
    return Fit(clock() - start, result)


def everyday(name: str) -> tuple[bench_svm.Problem, np.ndarray, np.ndarray]:
    """A problem of `scripts/bench_everyday.py`, its rows and classes."""
    X, labels = bench_everyday.LINES[name].data()
    gamma = 1.0 / (X.shape[1] * X.var())
    return bench_svm.Problem(name, "", 100.0, gamma), X, np.where(labels == labels.max(), 1, -1)


def ablate(
    problem: bench_svm.Problem,
    X: Any,
    y: np.ndarray,
    names: list[str],
    coupled: bool,
    arguments: argparse.Namespace,
) -> None:
    """Print a line for each switch."""
    rows = min(QUICK_ROWS, X.shape[0]) if arguments.quick else X.shape[0]
    X, y = X[:rows], y[:rows]
    settings = switches(coupled)
    full = Setting()
    for setting in (full, *(settings[name] for name in names)):
        # Compile what the fits need.
        fit(problem, X[:2000], y[:2000], coupled, setting, 60.0)
        fit(problem, X[:6000], y[:6000], coupled, setting, 60.0)
    base = fit(problem, X, y, coupled, full, 1e3).result
    print(
        f"{problem.name:20} all on: {base.kernel_entries / 1e6:.0f} M values, {base.n_iter} steps, "
        f"{base.n_groups} groups",
        flush=True,
    )
    on_seconds: list[float] = []
    for name in names:
        setting, ratios = settings[name], []
        while len(ratios) < arguments.repeats:
            on = fit(problem, X, y, coupled, full, 1e3)
            off = fit(problem, X, y, coupled, setting, arguments.limit)
            on_seconds.append(on.seconds)
            ratios.append(off.seconds / on.seconds)
            applies = setting.only_time or counts(off.result) != counts(on.result)
            if ratios[0] > 2.0 or not applies:
                break
        limit = ">" if off.result.stop_reason == "max_time" else " "
        seconds = f"{statistics.median(ratios):7.2f}" if applies else "      -"
        missed = "" if off.result.converged else f"  violation {off.result.violation:.1e}"
        print(
            f"{problem.name:20} {name:20} {limit}{seconds}   "
            f"values {off.result.kernel_entries / base.kernel_entries:6.2f}  "
            f"steps {off.result.n_iter / base.n_iter:6.2f}{missed}",
            flush=True,
        )
    print(f"{problem.name:20} all on: {statistics.median(on_seconds):.3f} s", flush=True)


# name: table, kernel, C; columns as shipped
SMALL = {
    "iris": (load_iris, "linear", 1e4),
    "digits": (load_digits, "linear", 1.0),
    "wine": (load_wine, "rbf", 1e4),
    "breast_cancer": (load_breast_cancer, "linear", 1.0),
    "breast_cancer poly": (load_breast_cancer, "poly", 1e4),
}
SMALL_SWITCHES = {
    "exact_optimum": ("ends",),
    "interior_point": ("method",),
    "both": ("ends", "method"),
}


@contextlib.contextmanager
def small_engine_without(parts: tuple[str, ...]) -> Iterator[None]:
    """No exact optima of small problems, no interior-point method, or neither."""
    held = exact_optimum.ExactOptimum.steps_before, exact_optimum.to_optimum
    held_numbers = exact_optimum._COMPILED, dual.steps_before
    if "ends" in parts:
        exact_optimum.ExactOptimum.steps_before = lambda _, n: np.full(len(n), 2**62)  # type: ignore[method-assign]
        exact_optimum.to_optimum = lambda *_: face.NOT_DEFINITE
        exact_optimum._COMPILED = math.inf
    if "method" in parts:
        dual.steps_before = lambda *_: 2**62
    try:
        yield
    finally:
        exact_optimum.ExactOptimum.steps_before, exact_optimum.to_optimum = held  # type: ignore[method-assign]
        exact_optimum._COMPILED, dual.steps_before = held_numbers


def ablate_small(name: str, repeats: int, limit: float) -> None:
    """Print a line for each switch of the small-problem solver."""
    table, kernel, C = SMALL[name]
    X, y = table(return_X_y=True)

    def timed(parts: tuple[str, ...]) -> tuple[float, KernelSVC]:
        with small_engine_without(parts), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            start = time.process_time()
            model = KernelSVC(kernel=kernel, C=C, max_time=limit).fit(X, y)
            return time.process_time() - start, model

    timed(())
    for switch, parts in SMALL_SWITCHES.items():
        ratios = []
        while len(ratios) < repeats and (not ratios or ratios[0] < 10.0):
            (on_s, on), (off_s, off) = timed(()), timed(parts)
            ratios.append(off_s / on_s)
        gap = off.duality_gap_ / abs(off.objective_)
        seconds = f"{' ' if off.converged_ else '>'}{statistics.median(ratios):7.2f}"
        print(
            f"{name:20} {switch:20} {seconds}"
            f"   steps {off.n_iter_.sum() / on.n_iter_.sum():6.2f}   gap {gap:.1e}",
            flush=True,
        )


def counts(result: BoxDualResult) -> tuple[int, int, bytes]:
    """Kernel values, steps and solution."""
    return result.kernel_entries, result.n_iter, result.alpha.tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], parents=[_early])
    problems = [problem.name for problem in bench_svm.PROBLEMS]
    parser.add_argument("--only", nargs="+", choices=[*problems, *EVERYDAY], metavar="NAME")
    parser.add_argument("--everyday", action="store_true")
    parser.add_argument("--switch", nargs="+", metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="the first 8,000 rows")
    parser.add_argument("--small", action="store_true", help="tables, and the small-problem solver")
    parser.add_argument("--free", action="store_true", help="without intercept")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=100.0, metavar="SECONDS")
    arguments = parser.parse_args()
    if arguments.small:
        for name in SMALL:
            ablate_small(name, arguments.repeats, arguments.limit)
        return
    known = list(switches(not arguments.free))
    names = known if arguments.switch is None else arguments.switch
    if unknown := set(names) - set(known):
        parser.error(f"--switch {' '.join(sorted(unknown))}: expected one of {' '.join(known)}")
    for name in EVERYDAY if arguments.everyday else problems:
        if arguments.only is not None and name not in arguments.only:
            continue
        try:
            if arguments.everyday:
                problem, X, y = everyday(name)
            else:
                problem = next(known for known in bench_svm.PROBLEMS if known.name == name)
                X, y, *_ = bench_svm.load(problem)
        except DataNotFoundError as error:
            print(error)
            continue
        ablate(problem, X, y, names, not arguments.free, arguments)


if __name__ == "__main__":
    main()
