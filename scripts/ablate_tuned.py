"""What each constant of the search of self-tuning estimators is worth, on sets left out in turn.

    python scripts/ablate_tuned.py [--seeds N] [--rows N] [--sets NAME ...] [CONSTANT ...]

For each constant of `kbench/width_search/constants.py` (all, or those named), `ALTERNATIVES` has
other values: half and double for numbers without an entry. A line is one alternative: the geometric
mean over the sets of its held-out error as a multiple of the default's (error rate or mean squared
error), the lowest and highest such mean with one set left out, its standard error over the sets,
and the same for the work of the search, the sum of the squared training rows of its models.

A constant earns its line if every alternative that takes less work is worse by more than two
standard errors whichever set is left out; "drop" says that one is not. No seconds are compared, so
that the script may run beside other work.

The sets are scikit-learn's bundled and generated ones. NAME[:ROWS] of `--sets` may also be a data
set of configs/dataset with files (`KBENCH_DATA`), of whose training rows half are held out.
"""

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from bench_tuned import dense, load
from sklearn import datasets

from kbench.methods import TunedKernelRidge, TunedKernelSVC, TunedKernelSVR
from kbench.width_search import constants

Rows = tuple[np.ndarray, np.ndarray]
# Values that are neither numbers nor tuples of numbers, and those whose half means nothing.
ALTERNATIVES: dict[str, list[Any]] = {
    "FOLDS": [(3, 2), (2,)],
    "WIDTHS": [np.arange(-4.0, 7.0)],
    "CS": [np.arange(-2.0, 9.0)],
    "LOCAL_GOAL": [(0.0, 0.0), (-1.0, 1.0)],
    "TUBES": [(0.6, 0.6), (1.0, 0.6, 0.2)],
    "RIDGES": [np.arange(-20.0, 5.0, 4.0)],
    "RIDGE_STEPS": [(2.0, -2.0)],
}


def generated(n: int, seed: int) -> dict[str, Rows]:
    """Sets of n rows for training and n to be held out."""
    rng = np.random.default_rng(seed)
    tails = rng.standard_t(2, size=(2 * n, 5))
    smooth = np.sin(tails[:, 0]) + 0.5 * tails[:, 1] * np.exp(-(tails[:, 2] ** 2))
    options: dict[str, Any] = {"random_state": seed}
    return {
        "moons": datasets.make_moons(2 * n, noise=0.3, **options),
        "clusters": datasets.make_classification(
            2 * n, 12, n_informative=6, n_classes=3, flip_y=0.05, **options
        ),
        "friedman1": datasets.make_friedman1(2 * n, noise=1.0, **options),
        "friedman2": datasets.make_friedman2(2 * n, noise=20.0, **options),
        "friedman3": datasets.make_friedman3(2 * n, noise=0.1, **options),
        "heavy tails": (tails, smooth + 0.1 * rng.standard_normal(2 * n)),
    }


def rows_of(name: str, n: int, seed: int) -> Rows:
    """Rows of a set in random order; the first half is for training, at most n rows."""
    bundled = {
        "digits": datasets.load_digits,
        "breast_cancer": datasets.load_breast_cancer,
        "wine_classes": datasets.load_wine,
        "diabetes": datasets.load_diabetes,
    }
    if name in bundled:
        X, y = bundled[name](return_X_y=True)
    elif name in (found := generated(n, seed)):
        X, y = found[name]
    else:
        data, _ = load(name)
        X, y = dense(data.X_train), data.y_train
    order = np.random.default_rng(seed).permutation(len(y))[: 2 * n]
    return X[order], y[order]


def measure(cls: type, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
    """Error on the half of the rows that is held out, and the work of the search."""
    half = len(y) // 2
    model = cls(random_state=seed).fit(X[:half], y[:half])
    predicted = model.predict(X[half:])
    wrong = predicted != y[half:] if cls is TunedKernelSVC else (predicted - y[half:]) ** 2
    work = float(np.sum(np.square(model.search_results_["n_rows"], dtype=float)))
    # Half an error more, so that a set without errors has a ratio.
    return float((wrong.sum() + 0.5 * wrong.mean() + 1e-12) / len(wrong)), work


def estimators(y: np.ndarray) -> list[type]:
    if len(np.unique(y)) <= 50:
        return [TunedKernelSVC]
    return [TunedKernelSVR, TunedKernelRidge]


def measure_sets(sets: list[str], n: int, seeds: int) -> dict[str, np.ndarray]:
    """Mean logarithms of error and work over the seeds, by set and estimator; (2,)."""
    results = {}
    for name in sets:
        for cls in estimators(rows_of(name, n, 0)[1]):
            values = [measure(cls, *rows_of(name, n, seed), seed) for seed in range(seeds)]
            results[f"{name} {cls.__name__}"] = np.log(values).mean(axis=0)
    return results


@contextmanager
def changed(name: str, value: Any) -> Iterator[None]:
    before = getattr(constants, name)
    setattr(constants, name, value)
    try:
        yield
    finally:
        setattr(constants, name, before)


def alternatives(name: str) -> list[Any]:
    """Other values of a constant."""
    if name in ALTERNATIVES:
        return ALTERNATIVES[name]
    value = getattr(constants, name)
    if isinstance(value, tuple):
        return [tuple(type(v)(v * factor) for v in value) for factor in (0.5, 2.0)]
    return [type(value)(value * factor) for factor in (0.5, 2.0)]


def line(name: str, value: Any, ratios: np.ndarray) -> None:
    """Print a line; ratios : (sets, 2) logarithms of error and work relative to the default's."""
    m = len(ratios)
    mean, standard_error = ratios.mean(axis=0), ratios.std(axis=0, ddof=1) / np.sqrt(m)
    without = np.exp((ratios.sum(axis=0) - ratios) / (m - 1))
    cheaper = mean[1] < -0.02  # 2 % less work, set by hand
    clearly_worse = np.log(without[:, 0].min()) > 2.0 * standard_error[0]
    print(
        f"{name:18} {value!s:28.28} error {np.exp(mean[0]):.3f} +- {standard_error[0]:.3f} "
        f"({without[:, 0].min():.3f} to {without[:, 0].max():.3f}), work {np.exp(mean[1]):.2f}"
        + ("  drop" if cheaper and not clearly_worse else ""),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = [name for name in vars(constants) if name.isupper()]
    parser.add_argument("constants", nargs="*", metavar="CONSTANT")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=500, help="training rows of a set, at most")
    parser.add_argument("--sets", nargs="+", default=[*generated(4, 0), "digits", "diabetes"])
    options = parser.parse_args()
    if unknown := set(options.constants) - set(known):
        parser.error(f"no constant {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    warnings.simplefilter("ignore")
    default = measure_sets(options.sets, options.rows, options.seeds)
    for key, (error, work) in default.items():
        print(f"{key:34} error {np.exp(error):.4g}, work {np.exp(work):.3g}", flush=True)
    for name in options.constants or known:
        for value in alternatives(name):
            with changed(name, value):
                tried = measure_sets(options.sets, options.rows, options.seeds)
            line(name, value, np.array([tried[key] - default[key] for key in default]))


if __name__ == "__main__":
    main()
