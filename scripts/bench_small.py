"""KernelSVC and KernelSVR beside SVC and SVR on small, many-class and regression problems.

    python scripts/bench_small.py [--only NAME ...] [--repeats R]
                                  [--regression | --intelex | --crossover | --any-C | --low-rank]

CPU seconds of one thread: medians over repeats in which the two take turns. Both solve the same
problem to tol=1e-3. `violation` is the largest max up - min down over all pairs of classes
(or of the regression), from the coefficients that were returned and float64 kernel values computed
here; above 1e-3 a problem has not been solved. `must` is the ratio that is asked for.

The classification sets take 80 % of the training file and predict the rest; binary sets are the
first n of 500 to 8,000 rows. --regression compares KernelSVR with SVR, features and targets scaled
to unit variance, gamma = 1 / d; --intelex with the SVR of scikit-learn-intelex, which has to be
installed. --crossover times both engines of KernelSVC on the binary sets. Every line ends with "ok"
or "FALLS SHORT".
--any-C fits the tables that scikit-learn ships, as shipped and standardised, with four kernels and
C from 0.01 to 1e6, SVC and SVR with at most 10,000,000 steps; `gap` is the duality gap in parts of
the primal objective, from the coefficients and float64 kernel values. Lines under 5 ms may take
1 ms more than the peer. --low-rank has linear and polynomial kernels of more rows.
Data sets that are not available are named and skipped.
"""

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from sklearn.datasets import (  # noqa: E402
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_regression,
)
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402
from sklearn.svm import SVC, SVR  # noqa: E402
from sklearn.utils import check_array, check_X_y  # noqa: E402

import kbench.methods.exact.kernel_svc_problems as kernel_svc_problems  # noqa: E402
from kbench.config import composer  # noqa: E402
from kbench.data import Folders, open_prepared, prepare  # noqa: E402
from kbench.errors import DataNotFoundError, UnavailableError  # noqa: E402
from kbench.methods import KernelSVC, KernelSVR  # noqa: E402

# name: data set, C, gamma, ratio of fit and of predict that is asked for
CLASSES = {
    "iris": (10.0, 1.0, 2, 1),
    "wine_cultivars": (10.0, 0.5, 2, 1),
    "breast_cancer": (10.0, 1.0, 2, 1),
    "digits": (10.0, 0.05, 3, 8),
    "pendigits": (8.0, 2.0, 5, 8),
    "usps": (8.0, 1 / 128, 5, 8),
    "letter": (16.0, 1.0, 6, 8),
}
WHOLE = ("iris", "wine_cultivars", "breast_cancer", "digits")  # sets without a test file
BINARY = {"ijcnn1": (32.0, 2.0), "covtype_93k": (32.0, 32.0)}
SIZES = (500, 1000, 2000, 4000, 8000)
REGRESSION = ("cpusmall", "kin40k", "bike", "cadata")
MAX_ROWS = 10_000  # of regression sets
SHIPPED = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "digits": load_digits,
}
ANY_C = (0.01, 1.0, 100.0, 1e4, 1e6)
KERNELS = ("linear", "poly", "rbf", "sigmoid")
MAX_STEPS = 10_000_000  # of SVC and SVR, which would take hours on some of these problems


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and targets in an order drawn with seed 0; ([], []) if not available."""
    try:
        with composer() as hydra:
            config = hydra.compose([f"dataset={name}"])["dataset"]
        data = open_prepared(prepare(config, Folders.from_environment(), download=False))
    except (DataNotFoundError, UnavailableError) as error:
        print(f"{name}: {error}")
        return np.empty((0, 0)), np.empty(0)
    X, y = data.X_train, np.asarray(data.y_train)
    if name in WHOLE:
        X, y = np.vstack([X, data.X_test]), np.concatenate([y, data.y_test])
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order].astype(np.float64), y[order]


def rescale(name: str, X: np.ndarray) -> np.ndarray:
    """Features in the ranges for which CLASSES states C and gamma."""
    if name == "digits":
        return X * (1.0 if X.max() <= 1.0 else 1 / 16)
    if name in ("iris", "wine_cultivars", "breast_cancer", "pendigits"):
        return MinMaxScaler().fit_transform(X)
    return X


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def in_turns(actions: list[Callable[[], Any]], repeats: int) -> tuple[list[float], list[Any]]:
    """Median CPU seconds and last results of actions that run in turns, after one untimed round.

    Short actions are repeated for 20 ms and divided, so that one does not pay for the cold caches
    that the other leaves behind.
    """
    first = [seconds(action) for action in actions]
    results = [result for _, result in first]
    # The first call loads compiled code; of long actions, a second tells nothing new.
    spent = [
        once if once > 1.0 else seconds(action)[0]
        for (once, _), action in zip(first, actions, strict=True)
    ]
    counts = [1 + int(0.02 / max(1e-6, t)) for t in spent]
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats):
        for k, action in enumerate(actions):
            spent, results[k] = seconds(lambda: [action() for _ in range(counts[k])][-1])  # noqa: B023
            times[k].append(spent / counts[k])
    return [statistics.median(values) for values in times], results


def violation(z: np.ndarray, beta: np.ndarray, K: Any, C: float, epsilon: float = 0.0) -> float:
    """max {e + lift} - min {e + drop}, e = z - K beta; classification if epsilon is 0."""
    e = z - K
    lower, upper = (-C, C) if epsilon else (np.minimum(0, C * z), np.maximum(0, C * z))
    up = e + np.where(beta >= 0, -epsilon, epsilon)
    down = e + np.where(beta <= 0, epsilon, -epsilon)
    return float(up[beta < upper].max() - down[beta > lower].min())


def products(X: np.ndarray, beta: np.ndarray, gamma: float) -> np.ndarray:
    """K beta in float64, 1,000 rows at a time."""
    support = np.flatnonzero(beta)
    blocks = [
        rbf_kernel(X[i : i + 1000], X[support], gamma) @ beta[support]
        for i in range(0, len(X), 1000)
    ]
    return np.concatenate(blocks)


def worst_violation(model: Any, X: np.ndarray, y: np.ndarray, C: float, gamma: float) -> float:
    """The largest violation over all pairs of classes."""
    index = np.searchsorted(model.classes_, y)
    k, coef = len(model.classes_), np.zeros((len(model.dual_coef_), len(X)))
    coef[:, model.support_] = model.dual_coef_ if k > 2 else -model.dual_coef_
    worst = 0.0
    for a, b in itertools.combinations(range(k), 2):
        rows = np.flatnonzero((index == a) | (index == b))
        z = np.where(index[rows] == a, 1.0, -1.0)
        beta = np.where(z > 0, coef[b - 1, rows], coef[a, rows])
        worst = max(worst, violation(z, beta, products(X[rows], beta, gamma), C))
    return worst


def classification(name: str, repeats: int) -> None:
    X, y = load(name)
    if not len(X):
        return
    C, gamma, must_fit, must_predict = CLASSES[name]
    X, n = rescale(name, X), int(0.8 * len(X))
    makers = [lambda cls=cls: cls(C=C, gamma=gamma) for cls in (KernelSVC, SVC)]
    fit, models = in_turns([lambda m=m: m().fit(X[:n], y[:n]) for m in makers], repeats)
    predict, labels = in_turns([lambda m=m: m.predict(X[n:]) for m in models], repeats)
    one, _ = in_turns([lambda m=m: [m.predict(X[:1]) for _ in range(100)] for m in models], repeats)
    ours, theirs = (worst_violation(m, X[:n], y[:n], C, gamma) for m in models)
    report(f"{name} {n} x {X.shape[1]}", fit, must_fit, ours, theirs)
    ratio = predict[1] / predict[0]
    print(
        f"{'':28} predict {1e3 * predict[0]:9.2f} {1e3 * predict[1]:9.2f} ms   "
        f"{ratio:5.2f} x, must {must_predict}   one row {1e4 * one[0]:.0f} "
        f"{1e4 * one[1]:.0f} us   equal labels {np.mean(labels[0] == labels[1]):.2%}"
        f"   {verdict(ratio >= must_predict)}"
    )


def calls(repeats: int) -> None:
    """Fits of 100 rows and predictions of one, beyond what a check of the rows takes."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = MinMaxScaler().fit_transform(X)[:100], y[:100]
    makers = [lambda cls=cls: cls(C=10.0, gamma=1.0) for cls in (KernelSVC, SVC)]
    fit, models = in_turns([lambda m=m: m().fit(X, y) for m in makers], repeats)
    one, _ = in_turns([lambda m=m: m.predict(X[:1]) for m in models], repeats)
    (many, single), _ = in_turns([lambda: check_X_y(X, y), lambda: check_array(X[:1])], repeats)
    for what, (ours, theirs), check in (
        ("fit 100 x 30", fit, many),
        ("predict 1 x 30", one, single),
    ):
        print(
            f"{what:28} {1e3 * ours:17.3f} {1e3 * theirs:9.3f} ms   beyond a check of the rows "
            f"({1e3 * check:.3f} ms) {1e3 * (ours - check):.3f} ms, must 1   "
            f"{verdict(ours - check <= 1e-3)}"
        )


def binary(name: str, repeats: int) -> None:
    X, y = load(name)
    C, gamma = BINARY[name]
    for n in SIZES if len(X) else ():
        makers = [lambda cls=cls: cls(C=C, gamma=gamma) for cls in (KernelSVC, SVC)]
        fit, models = in_turns([lambda m=m, n=n: m().fit(X[:n], y[:n]) for m in makers], repeats)
        ours, theirs = (worst_violation(m, X[:n], y[:n], C, gamma) for m in models)
        report(f"{name} {n}", fit, 3, ours, theirs)


def accelerated_svr() -> type[SVR]:
    """The SVR of scikit-learn-intelex."""
    from sklearnex.svm import SVR as AcceleratedSVR

    chosen: type[SVR] = AcceleratedSVR
    return chosen


def regression(name: str, repeats: int, peer: type[SVR], must: float) -> list[float]:
    X, y = load(name)
    if not len(X):
        return []
    X, y = X[:MAX_ROWS], y[:MAX_ROWS].astype(np.float64)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    gamma, ratios = 1 / X.shape[1], []
    for C in (1.0, 10.0, 100.0):
        makers = [lambda cls=cls: cls(C=C, gamma=gamma) for cls in (KernelSVR, peer)]  # noqa: B023
        fit, models = in_turns([lambda m=m: m().fit(X, y) for m in makers], repeats)
        violations = []
        for model in models:
            beta = np.zeros(len(X))
            beta[model.support_] = np.ravel(model.dual_coef_)
            violations.append(violation(y, beta, products(X, beta, gamma), C, model.epsilon))
        report(f"{name} {len(X)} x {X.shape[1]} C={C:g}", fit, must, *violations)
        ratios.append(fit[1] / fit[0])
    return ratios


def crossover(name: str, repeats: int) -> None:
    """Both engines of KernelSVC on the first n rows."""
    X, y = load(name)
    C, gamma = BINARY[name]
    choice = kernel_svc_problems.is_small
    for n in (*SIZES[:3], 2500, 3000, *SIZES[3:]) if len(X) else ():
        actions = []
        for small in (True, False):

            def fit(small: bool = small, n: int = n) -> Any:
                kernel_svc_problems.is_small = lambda *_: small
                return KernelSVC(C=C, gamma=gamma).fit(X[:n], y[:n])

            actions.append(fit)
        times, _ = in_turns(actions, repeats)
        print(f"{name:12} {n:6} small {1e3 * times[0]:9.2f} large {1e3 * times[1]:9.2f} ms")
    kernel_svc_problems.is_small = choice


def gap(
    z: np.ndarray, beta: np.ndarray, K: np.ndarray, b: float, C: float, epsilon: float
) -> float:
    """Duality gap in parts of the primal objective; classification if epsilon is 0."""
    values = K @ beta
    loss = np.abs(z - values - b) - epsilon if epsilon else 1.0 - z * (values + b)
    primal = 0.5 * beta @ values + C * np.maximum(0.0, loss).sum()
    dual = z @ beta - epsilon * np.abs(beta).sum() - 0.5 * beta @ values
    return float((primal - dual) / max(abs(primal), abs(dual)))


def worst_gap(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The largest gap over all pairs of classes, or that of the regression."""
    if model.kernel == "linear":
        X = X - X.mean(axis=0)  # coefficients sum to 0; the intercept is searched below
    parameters = {"gamma": model._gamma, "degree": model.degree, "coef0": model.coef0}
    K = pairwise_kernels(X, metric=model.kernel, filter_params=True, **parameters)
    coef = np.zeros((len(model.dual_coef_), len(X)))
    coef[:, model.support_] = model.dual_coef_
    if isinstance(model, KernelSVR):
        problems = [(np.arange(len(X)), y.astype(np.float64), coef[0], model.epsilon)]
    else:
        index, k, problems = np.searchsorted(model.classes_, y), len(model.classes_), []
        for a, b in itertools.combinations(range(k), 2):
            rows = np.flatnonzero((index == a) | (index == b))
            z = np.where(index[rows] == a, 1.0, -1.0) * (1.0 if k > 2 else -1.0)
            beta = coef[0, rows] if k == 2 else np.where(z > 0, coef[b - 1, rows], coef[a, rows])
            problems.append((rows, z, beta, 0.0))
    worst = 0.0
    for rows, z, beta, epsilon in problems:
        part = K[np.ix_(rows, rows)]
        e = z - part @ beta
        free = (np.abs(beta) > 0.0) & (np.abs(beta) < model.C)
        b = float(np.mean((e - epsilon * np.sign(beta))[free])) if free.any() else None
        candidates = [b] if b is not None else np.unique(np.concatenate([e - epsilon, e + epsilon]))
        worst = max(worst, min(gap(z, beta, part, b, model.C, epsilon) for b in candidates))
    return worst


def any_c(names: list[str], repeats: int) -> None:
    ratios, short = [], 0
    for name, raw, kernel, C in itertools.product(names, (True, False), KERNELS, ANY_C):
        X, y = SHIPPED[name](return_X_y=True)
        X = X if raw else StandardScaler().fit_transform(X)
        ours, theirs = (KernelSVR, SVR) if name == "diabetes" else (KernelSVC, SVC)
        ours(kernel=kernel, C=C, max_iter=1000).fit(X[::9], y[::9])  # compiles
        times: list[list[float]] = [[], []]
        for turn in range(repeats):
            if turn and sum(times[0] + times[1]) > 1.0:
                break
            spent, model = seconds(lambda: ours(kernel=kernel, C=C, max_time=60).fit(X, y))  # noqa: B023
            times[0].append(spent)
            if not turn or times[1][0] < 1.0:
                limited = theirs(kernel=kernel, C=C, max_iter=MAX_STEPS)
                times[1].append(seconds(lambda: limited.fit(X, y))[0])  # noqa: B023
        mine, peer = statistics.median(times[0]), statistics.median(times[1])
        worst = worst_gap(model, X, y)
        allowed = peer + (1e-3 if peer < 5e-3 else 0.0)
        holds = mine <= allowed and model.converged_ and (worst <= 1e-6 or kernel == "sigmoid")
        ratios.append(peer / mine)
        short += not holds
        form = "raw" if raw else "standardised"
        print(
            f"{name:13} {form:12} {kernel:7} C={C:<7g} fit {1e3 * mine:9.2f} {1e3 * peer:9.2f} ms "
            f"{peer / mine:7.2f} x   converged {model.converged_}   violation "
            f"{model.violation_:.1e}   gap {worst:.1e}   {verdict(holds)}",
            flush=True,
        )
    mean = statistics.geometric_mean(ratios)
    print(f"geometric mean {mean:.2f} x, must 3; {short} of {len(ratios)} lines fall short")


# name: rows, columns, whether a regression, parameters, ratio to scikit-learn that is asked for
LOW_RANK: dict[str, tuple[int, int, bool, dict[str, Any], float]] = {
    "10,000 x 6, C = 1": (10_000, 6, False, {"C": 1.0}, 100),
    "10,000 x 6, C = 100": (10_000, 6, False, {"C": 100.0}, 100),
    "10,000 x 6, degree 2": (10_000, 6, False, {"kernel": "poly", "degree": 2, "coef0": 1.0}, 10),
    "6,000 x 100": (6000, 100, False, {"C": 1.0}, 15),
    "SVR 6,000 x 20, C = 1": (6000, 20, True, {"C": 1.0}, 100),
    "SVR 6,000 x 20, C = 100": (6000, 20, True, {"C": 100.0}, 100),
    "500,000 x 20": (500_000, 20, False, {"C": 1.0}, 0),
}


def low_rank(name: str, repeats: int) -> None:
    n, d, is_regression, parameters, must = LOW_RANK[name]
    if is_regression:
        X, y = make_regression(n, d, noise=20, random_state=0)
        y /= y.std()
    else:
        informative, flipped, seed = {6: (4, 0.05, 0), 100: (30, 0.02, 1), 20: (10, 0.02, 1)}[d]
        X, y = make_classification(
            n, d, n_informative=informative, flip_y=flipped, random_state=seed
        )
    X = StandardScaler().fit_transform(X) if d == 100 else X
    ours, theirs = (KernelSVR, SVR) if is_regression else (KernelSVC, SVC)
    options = {"kernel": "linear"} | parameters
    ours(**options).fit(X[:3000], y[:3000])
    results = [seconds(lambda: ours(**options).fit(X, y)) for _ in range(repeats)]
    mine, model = statistics.median(spent for spent, _ in results), results[-1][1]
    peer = seconds(lambda: theirs(**options, max_iter=MAX_STEPS).fit(X, y))[0] if must else None
    against = "" if peer is None else f" {peer:9.3f} s   {peer / mine:7.1f} x, must {must:g}"
    holds = model.converged_ and (peer is None or peer / mine >= must)
    print(
        f"{name:24} fit {mine:9.3f}{against}   violation {model.violation_:.1e}   gap "
        f"{model.duality_gap_ / abs(model.objective_):.1e}   {model.n_iter_} steps   "
        f"{verdict(holds)}",
        flush=True,
    )


def report(problem: str, fit: list[float], must: float, ours: float, theirs: float) -> None:
    ratio = fit[1] / fit[0]
    print(
        f"{problem:28} fit {1e3 * fit[0]:13.2f} {1e3 * fit[1]:9.2f} ms   {ratio:5.2f} x, must "
        f"{must:g}   violation {ours:.2e} {theirs:.2e}   "
        f"{verdict(ratio >= must and ours <= 1e-3 * (1 + 1e-9))}",
        flush=True,
    )


def verdict(holds: bool) -> str:
    return "ok" if holds else "FALLS SHORT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--regression", action="store_true")
    what.add_argument("--intelex", action="store_true")
    what.add_argument("--crossover", action="store_true")
    what.add_argument("--any-C", action="store_true")
    what.add_argument("--low-rank", action="store_true")
    arguments = parser.parse_args()

    def wanted(names: Any) -> list[str]:
        return [name for name in names if arguments.only is None or name in arguments.only]

    if arguments.regression or arguments.intelex:
        peer, must, mean = (accelerated_svr(), 3, 3) if arguments.intelex else (SVR, 4, 7)
        ratios = [
            ratio
            for name in wanted(REGRESSION)
            for ratio in regression(name, arguments.repeats, peer, must)
        ]
        if ratios:
            reached = statistics.geometric_mean(ratios)
            print(f"geometric mean {reached:.2f} x, must {mean}   {verdict(reached >= mean)}")
        return
    if arguments.any_C:
        any_c(wanted(SHIPPED), arguments.repeats)
        return
    if arguments.low_rank:
        for name in wanted(LOW_RANK):
            low_rank(name, arguments.repeats)
        return
    if arguments.crossover:
        for name in wanted(BINARY):
            crossover(name, arguments.repeats)
        return
    print(f"{'':28}      ours, then SVC")
    if arguments.only is None or "calls" in arguments.only:
        calls(arguments.repeats)
    for name in wanted(CLASSES):
        classification(name, arguments.repeats)
    for name in wanted(BINARY):
        binary(name, arguments.repeats)


if __name__ == "__main__":
    main()
