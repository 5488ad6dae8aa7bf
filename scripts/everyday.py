"""Data nobody tuned for: every estimator with its defaults on 40 everyday problems.

    python scripts/everyday.py run RESULTS [--rows N] [--seeds N] [--only ESTIMATOR ...]
                                           [--problems NAME ...] [--limit SECONDS]
    python scripts/everyday.py show RESULTS
    python scripts/everyday.py table RESULTS [docs/everyday.md]

`run` fits every estimator of `kbench.methods` to each problem of `PROBLEMS`, on at most N training
rows, and adds a line for each fit to the CSV file RESULTS; what the file has is not fitted again.
Beside them stand the trivial model (the mean or the most frequent class), a linear one (`Ridge`,
`LogisticRegression`), gradient boosting and scikit-learn's `SVC` or `SVR`, these three on
standardised rows. All have the defaults of their classes. An estimator whose fit takes longer than
the limit is left out on problems of more rows.

A result is *worse than the trivial model* if its mean loss on the test rows (squared, or 0 and 1)
is above the trivial one's by more than `_ERRORS` standard errors of the paired differences, and
*worse than the linear model* if beyond that RMSE or error rate are 5 % higher. `show` prints those,
`table` replaces what is between the two comments of the document, which has to name the estimator
in a sentence that says why.
"""

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.base import is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import kbench.methods
from kbench.files import atomic_file

BEGIN, END = "<!-- written by scripts/everyday.py -->\n", "<!-- end -->\n"
# Standard errors of a paired difference above which it is no noise: by chance, one or two of 1,500
# comparisons are above it.
_ERRORS = 3.0
# A linear model better by more than this fraction of RMSE or error rate has to be explained.
_MARGIN = 0.05
# Names that begin so need extras, or are scikit-learn's trees. Diagnostics predict nothing of their
# own.
_LEFT_OUT = ("Intelex", "JointConvolution", "XRFM", "TunedBoosting")
TUNED = (
    "TunedKernelSVC",
    "TunedKernelSVR",
    "TunedKernelRidge",
    "RecursiveFeatureClassifier",
    "RecursiveFeatureRegressor",
)
RIVALS = ("boosting", "exact")
FIELDS = ("problem", "rows", "seed", "estimator", "loss", "trivial", "linear", "seconds", "said")
Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Problem(NamedTuple):
    """Rows drawn by `make(n, generator)`, of which the first `rows` are for training.

    `spoilt` changes training rows only, in place or by returning others.
    """

    make: Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
    rows: int
    spoilt: Callable[..., tuple[np.ndarray, np.ndarray]] | None = None

    def data(self, seed: int, most: int | None = None, n_test: int = 1000) -> Data:
        """Training rows and targets, at most `most`, and test rows and targets."""
        rng = np.random.default_rng(seed)
        n = min(self.rows, most or self.rows)
        X, y = self.make(self.rows + n_test, rng)
        held_out = min(n_test, len(y) // 2)
        n = min(n, len(y) - held_out)
        training = X[:n], y[:n]
        if self.spoilt is not None:
            training = self.spoilt(*(array.copy() for array in training), rng)
        return *training, X[len(y) - held_out :], y[len(y) - held_out :]


def smooth(X: np.ndarray) -> np.ndarray:
    """A smooth function of the first three columns, (n,)."""
    return 2.0 * np.sin(X[:, 0]) + X[:, 1] * np.exp(-(X[:, 2] ** 2))


def normal_rows(n: int, rng: np.random.Generator, d: int = 5, noise: float = 0.3) -> Any:
    X = rng.normal(size=(n, d))
    return X, smooth(X) + noise * rng.normal(size=n)


def mixed_scales(n: int, rng: np.random.Generator) -> Any:
    X, y = normal_rows(n, rng, 6)
    return X * 10.0 ** np.array([6, -6, 0, 3, -3, 1]), y


def bundled(load: Callable[..., Any]) -> Callable[..., Any]:
    def make(_: int, rng: np.random.Generator) -> Any:
        X, y = load(return_X_y=True)
        order = rng.permutation(len(y))
        return X[order], y[order]

    return make


def generated(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def make(n: int, rng: np.random.Generator) -> Any:
        return function(n_samples=n, random_state=int(rng.integers(2**31)), **options)

    return make


def of_target(change: Callable[..., np.ndarray], **options: Any) -> Callable[..., Any]:
    """Normal rows whose target is changed by a function of target and generator."""

    def make(n: int, rng: np.random.Generator) -> Any:
        X, y = normal_rows(n, rng, **options)
        return X, change(y, rng)

    return make


def heavy_rows(n: int, rng: np.random.Generator, d: int = 8) -> Any:
    X = rng.standard_t(2, size=(n, d))
    return X, smooth(X) + 0.1 * rng.normal(size=n)


def linear_target(n: int, rng: np.random.Generator, d: int = 10, noise: float = 1.0) -> Any:
    X = rng.normal(size=(n, d))
    return X, X @ np.linspace(1.0, 0.0, d) + noise * rng.normal(size=n)


def one_hot(n: int, rng: np.random.Generator) -> Any:
    codes = rng.integers(0, 8, (n, 3))
    effects = np.random.default_rng(0).normal(size=(3, 8))
    X = np.concatenate([np.eye(8)[column] for column in codes.T], axis=1)
    return X, effects[[0, 1, 2], codes].sum(axis=1) + 0.3 * rng.normal(size=n)


def steps(n: int, rng: np.random.Generator) -> Any:
    X = rng.random((n, 4))
    return X, np.where(X[:, 0] > 0.5, 3.0, 0.0) + np.floor(4.0 * X[:, 1]) + 0.2 * rng.normal(size=n)


def classes(thresholds: tuple[float, ...], **options: Any) -> Callable[..., Any]:
    """Classes by thresholds of the smooth function, with its noise."""
    return of_target(lambda y, _: np.digitize(y, thresholds), **options)


def checkerboard(n: int, rng: np.random.Generator) -> Any:
    X = 4.0 * rng.random((n, 2))
    return X, (np.floor(X).sum(axis=1) % 2).astype(int)


def exclusive_or(n: int, rng: np.random.Generator) -> Any:
    X = rng.normal(size=(n, 12))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def words(n: int, rng: np.random.Generator, positive: float = 0.5) -> Any:
    X = (rng.random((n, 300)) < np.linspace(0.2, 0.005, 300)).astype(float)
    effects = np.random.default_rng(0).normal(size=300)
    threshold = np.quantile(X @ effects, 1.0 - positive)
    return X, (X @ effects + 0.5 * rng.normal(size=n) > threshold).astype(int)


def many_classes(n: int, rng: np.random.Generator, k: int = 26) -> Any:
    y = rng.integers(0, k, n)
    centres = np.random.default_rng(0).normal(size=(k, 10))
    return centres[y] + 0.5 * rng.normal(size=(n, 10)), y


def repeated(X: np.ndarray, y: np.ndarray, _: np.random.Generator) -> Any:
    """The first tenth of the rows ten times each."""
    m = -(-len(y) // 10)
    return X[:m].repeat(10, axis=0)[: len(y)], y[:m].repeat(10)[: len(y)]


def in_order(X: np.ndarray, y: np.ndarray, _: np.random.Generator) -> Any:
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def far_rows(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Any:
    """One row in fifty is a thousand times as large."""
    X[rng.random(len(y)) < 0.02] *= 1000.0
    return X, y


def far_targets(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Any:
    """One target in fifty is off by a hundred deviations, to either side."""
    wrong = rng.random(len(y)) < 0.02
    y[wrong] += 100.0 * y.std() * rng.choice([-1.0, 1.0], int(wrong.sum()))
    return X, y


PROBLEMS = {
    # Regression.
    "smooth": Problem(normal_rows, 500),
    "smooth, 20,000 rows": Problem(partial(normal_rows, d=8), 20_000),
    "20 rows": Problem(partial(normal_rows, d=3), 20),
    "friedman1": Problem(generated(datasets.make_friedman1, noise=1.0), 1000),
    "friedman2": Problem(generated(datasets.make_friedman2, noise=20.0), 500),
    "friedman3": Problem(generated(datasets.make_friedman3, noise=0.1), 500),
    "diabetes": Problem(bundled(datasets.load_diabetes), 442),
    "heavy tails in X": Problem(heavy_rows, 2000),
    "heavy tails in y": Problem(of_target(lambda y, rng: y + rng.standard_t(1.5, len(y))), 1000),
    "log-normal target": Problem(of_target(lambda y, _: np.exp(1.5 * y)), 800),
    "target of mean 1e6": Problem(of_target(lambda y, _: 1e6 + y), 500),
    "mixed scales": Problem(mixed_scales, 500),
    "repeated rows": Problem(normal_rows, 500, repeated),
    "ordered rows": Problem(normal_rows, 600, in_order),
    "noise": Problem(of_target(lambda y, rng: rng.normal(size=len(y)), d=10), 200),
    "counts": Problem(of_target(lambda y, rng: rng.poisson(np.exp(0.5 * y)).astype(float)), 800),
    "mostly zero": Problem(of_target(lambda y, _: np.where(y > 1.5, y, 0.0)), 600),
    "outliers in X": Problem(normal_rows, 400, far_rows),
    "outliers in y": Problem(normal_rows, 400, far_targets),
    "linear": Problem(linear_target, 100),
    "wide, linear": Problem(partial(linear_target, d=400, noise=0.1), 80),
    "categories": Problem(one_hot, 1000),
    "steps": Problem(steps, 800),
    # Classification.
    "moons": Problem(generated(datasets.make_moons, noise=0.3), 500),
    "20 labels": Problem(classes((0.0,), d=3), 20),
    "iris": Problem(bundled(datasets.load_iris), 150),
    "wine": Problem(bundled(datasets.load_wine), 178),
    "breast_cancer": Problem(bundled(datasets.load_breast_cancer), 569),
    "digits": Problem(bundled(datasets.load_digits), 1797),
    "checkerboard, 50,000 rows": Problem(checkerboard, 50_000),
    "exclusive or": Problem(exclusive_or, 1000),
    "rare class": Problem(classes((3.0,)), 2000),
    "five uneven classes": Problem(classes((-2.5, -1.5, 0.0, 2.5)), 1500),
    "26 classes": Problem(many_classes, 520),
    "random labels": Problem(
        of_target(lambda y, rng: (rng.random(len(y)) < 0.3).astype(int), d=10), 300
    ),
    "noisy labels": Problem(
        of_target(lambda y, rng: (y > 0) ^ (rng.random(len(y)) < 0.3), noise=0.0), 1000
    ),
    "mixed scales, labels": Problem(
        lambda n, rng: (lambda X, y: (X, (y > 0).astype(int)))(*mixed_scales(n, rng)), 500
    ),
    "heavy tails, labels": Problem(
        lambda n, rng: (lambda X, y: (X, (y > 0.5).astype(int)))(*heavy_rows(n, rng)), 1000
    ),
    "labels in order, far rows": Problem(
        classes((-1.0, 1.0)), 600, lambda X, y, rng: far_rows(*in_order(X, y, rng), rng)
    ),
    "words": Problem(words, 1000),
}


def is_class_target(y: np.ndarray) -> bool:
    return y.dtype.kind != "f"


def estimators(*, classify: bool) -> Iterator[tuple[str, Any]]:
    """Every estimator of the task with its defaults, and the rivals on standardised rows."""
    wanted = is_classifier if classify else is_regressor
    for name in kbench.methods.__all__:
        cls = getattr(kbench.methods, name)
        if name.startswith(_LEFT_OUT) or ".diagnostics." in cls.__module__:
            continue
        model = cls()
        if wanted(model):
            known = model.get_params()
            yield name, model.set_params(**{k: 0 for k in ("random_state",) if k in known})
    boosting = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    yield "boosting", boosting(random_state=0)
    yield "exact", make_pipeline(StandardScaler(), SVC() if classify else SVR())


def losses(model: Any, data: Data) -> np.ndarray:
    """Losses at the t test rows of the model, fitted to the training rows; (t,)."""
    X, y, X_test, y_test = data
    return losses_at(model.fit(X, y), X_test, y_test)


def losses_at(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Losses of a fitted model at rows X with targets y, (len(y),)."""
    predicted = model.predict(X)
    return np.asarray(predicted != y, float) if is_class_target(y) else (predicted - y) ** 2


def excess(own: np.ndarray, other: np.ndarray) -> float:
    """Standard errors by which the mean of losses exceeds that of others on the same rows."""
    difference = own - other
    # One more loss of the mean size: losses that are all the same have a deviation, too.
    spread = np.hypot(difference.std(), np.abs(difference).mean() / np.sqrt(len(own)))
    return float(difference.mean() / max(spread / np.sqrt(len(own)), 1e-300))


class Compared(NamedTuple):
    """Losses of the trivial and the linear model at the test rows of a problem."""

    data: Data
    trivial: np.ndarray
    linear: np.ndarray

    @classmethod
    def of(cls, data: Data) -> "Compared":
        classify = is_class_target(data[1])
        trivial = DummyClassifier() if classify else DummyRegressor()
        linear = LogisticRegression(max_iter=1000) if classify else Ridge()
        return cls(
            data,
            losses(trivial, data),
            losses(make_pipeline(StandardScaler(), linear), data),
        )

    def error(self, own: np.ndarray) -> float:
        """Error rate, or RMSE."""
        mean = float(own.mean())
        return mean if is_class_target(self.data[1]) else mean**0.5

    def worse_than_trivial(self, own: np.ndarray) -> bool:
        return not excess(own, self.trivial) <= _ERRORS

    def worse_than_linear(self, own: np.ndarray) -> bool:
        beyond = not self.error(own) <= (1.0 + _MARGIN) * self.error(self.linear)
        return beyond and not excess(own, self.linear) <= _ERRORS


def measure(name: str, seed: int, most: int | None, options: Any, known: set) -> Iterator[dict]:
    """Fit the estimators whose lines are not known yet, and yield these lines."""
    data = PROBLEMS[name].data(seed, most)
    n = len(data[1])
    compared = Compared.of(data)
    for title, model in estimators(classify=is_class_target(data[1])):
        if (name, str(n), str(seed), title) in known or (
            options.only and title not in options.only
        ):
            continue
        if n > options.slow.get(title, np.inf):
            continue
        start = time.perf_counter()
        said = ""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                own = losses(model, data)
            said = "; ".join(sorted({str(w.message).partition("\n")[0] for w in caught}))
        except Exception as error:  # a fit that fails is a finding, not the end of the table
            own, said = np.full(len(data[3]), np.nan), f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        if seconds > options.limit:
            options.slow[title] = n
        verdict = "trivial" * compared.worse_than_trivial(own)
        verdict += " linear" * compared.worse_than_linear(own)
        yield {
            "problem": name,
            "rows": n,
            "seed": seed,
            "estimator": title,
            "loss": compared.error(own),
            "trivial": compared.error(compared.trivial),
            "linear": compared.error(compared.linear),
            "seconds": round(seconds, 3),
            "worse": verdict.strip(),
            "said": said[:200],
        }


def run(options: argparse.Namespace) -> None:
    fields = [*FIELDS[:-1], "worse", "said"]
    known = set()
    if options.results.exists():
        with options.results.open(encoding="utf-8", newline="") as file:
            known = {
                (r["problem"], r["rows"], r["seed"], r["estimator"]) for r in csv.DictReader(file)
            }
    options.slow = {}
    with options.results.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields)
        if not known:
            writer.writeheader()
        for name in sorted(options.problems, key=lambda name: PROBLEMS[name].rows):
            for seed in range(options.seeds):
                lines = list(measure(name, seed, options.rows, options, known))
                writer.writerows(lines)
                file.flush()
                print(f"{name}, seed {seed}: {len(lines)} fits", flush=True)


def worse(rows: pd.DataFrame, than: str) -> pd.DataFrame:
    return rows[rows["worse"].fillna("").str.contains(than)]


def show(rows: pd.DataFrame) -> None:
    """Print what is worse than the trivial and the linear model, and where tuned models lose."""
    pd.set_option("display.width", 200, "display.max_colwidth", 60, "display.max_rows", 2000)
    columns = ["problem", "rows", "seed", "estimator", "loss", "trivial", "linear", "said"]
    own = rows[~rows["estimator"].isin(RIVALS)]
    for than in ("trivial", "linear"):
        found = worse(own, than)
        print(f"worse than the {than} model: {len(found)} of {len(own)}")
        print(found.sort_values(["estimator", "problem"])[columns].to_string(index=False))
    print(tuned_ratios(rows).to_string(float_format="{:.3f}".format))


def tuned_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Error of each tuned estimator as a multiple of the better rival's, by problem."""
    error = rows.pivot_table(index="problem", columns="estimator", values="loss", sort=False)
    best = error[[name for name in RIVALS if name in error]].min(axis=1)
    return error[[name for name in TUNED if name in error]].div(best, axis=0)


def table(rows: pd.DataFrame) -> str:
    """Markdown: a line for each estimator, then one for each problem with the tuned estimators."""
    own = rows[~rows["estimator"].isin(RIVALS)]
    lines = [
        "| estimator | fits | error / linear's, median | worse than trivial | worse than linear |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, group in own.groupby("estimator"):
        ratio = (group["loss"] / group["linear"].clip(lower=1e-12)).median()
        cells = ["; ".join(sorted(set(worse(group, than)["problem"]))) for than in ("triv", "lin")]
        lines.append(f"| {name} | {len(group)} | {ratio:.2f} | {cells[0]} | {cells[1]} |")
    ratios = tuned_ratios(rows)
    lines += [
        "",
        f"| problem | {' | '.join(ratios.columns)} |",
        "| --- " * (1 + ratios.shape[1]) + "|",
    ]
    for name, values in ratios.iterrows():
        cells = ["" if np.isnan(value) else f"{value:.2f}" for value in values]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def write(document: Path, text: str) -> None:
    before, _, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{document}: needs the lines {BEGIN!r} and {END!r}")
    with atomic_file(document) as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=["run", "show", "table"])
    parser.add_argument("results", type=Path)
    parser.add_argument("document", type=Path, nargs="?", default=Path("docs/everyday.md"))
    parser.add_argument("--rows", type=int, help="training rows, at most")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="+", metavar="ESTIMATOR")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a fit")
    options = parser.parse_args()
    if options.action == "run":
        run(options)
        return
    rows = pd.read_csv(options.results)
    if options.action == "show":
        show(rows)
    else:
        write(options.document, table(rows))


if __name__ == "__main__":
    main()
