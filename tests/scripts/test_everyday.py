"""Data nobody tuned for, at small size: no estimator is worse than the trivial model.

`docs/everyday.md` has the table of larger sizes, and says why some are behind the linear model.
"""

import runpy
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "everyday.py"
everyday = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
DOCUMENT = Path(__file__).parents[2] / "docs" / "everyday.md"
NOISE = {"noise", "random labels"}


def excused(problem, model):
    """Why a model may be worse than the mean or the most frequent class, as the page says."""
    known = model.get_params()
    if problem == "target of mean 1e6" and not known.get("fit_intercept", True):
        return "no intercept, by definition"
    if type(model).__name__ == "KernelRidge":
        return "the linear kernel without an intercept, as in scikit-learn"
    if type(model).__name__ in ("KernelSVR", "KernelQuantileRegressor") and problem == "friedman2":
        return "C is in units of the target, as in SVR"
    if "quantile" in known and problem == "log-normal target":
        return "the median of a skewed target is not its mean"
    if problem in NOISE and {"nu", "block_size", "max_iter", "n_epochs", "C"} & set(known):
        return "its regularisation is given, and does not follow the data"
    if problem in {"outliers in y", "wide, linear", "noise"} and "epsilon" not in known:
        return "squares of errors"
    return None


@pytest.mark.parametrize("name", everyday.PROBLEMS)
def test_no_estimator_is_worse_than_the_trivial_model(name):
    drawn = (everyday.PROBLEMS[name].data(seed, 100) for seed in range(20))
    compared = everyday.Compared.of(next(data for data in drawn if np.unique(data[1]).size > 1))
    worse = []
    for title, model in everyday.estimators(classify=everyday.is_class_target(compared.data[1])):
        if title in everyday.RIVALS:
            continue
        with warnings.catch_warnings(action="ignore"):
            try:
                own = everyday.losses(model, compared.data)
            except ValueError as error:
                if "class_weight='balanced'" in str(error):
                    continue  # nu of uneven classes is refused, with this remedy, as by NuSVC
                raise
        if compared.worse_than_trivial(own) and not excused(name, model):
            worse.append(
                f"{title}: {compared.error(own):.3g} {compared.error(compared.trivial):.3g}"
            )
    assert not worse


@pytest.mark.parametrize("name", everyday.PROBLEMS)
def test_problems_are_drawn_anew_from_the_seed_and_test_rows_are_never_spoilt(name):
    problem = everyday.PROBLEMS[name]
    first, again, other = (problem.data(seed, 400) for seed in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])
    assert len(first[1]) <= 400
    if problem.spoilt is not None:
        clean = problem._replace(spoilt=None).data(0, 400)
        np.testing.assert_array_equal(first[2], clean[2])
        assert not np.array_equal(first[0], clean[0]) or not np.array_equal(first[1], clean[1])


def test_there_are_forty_problems_and_every_estimator():
    assert len(everyday.PROBLEMS) == 40
    sizes = [problem.rows for problem in everyday.PROBLEMS.values()]
    assert (min(sizes), max(sizes)) == (20, 50_000)
    names = {name for task in (True, False) for name, _ in everyday.estimators(classify=task)}
    assert {"KernelSVC", "TunedKernelSVR", "DoublySGDRegressor", *everyday.RIVALS} < names


def test_the_excess_is_in_standard_errors():
    rng = np.random.default_rng(0)
    other = rng.exponential(size=10_000)
    assert everyday.excess(other, other) == 0.0
    own = other + rng.normal(0.05, 1.0, size=10_000)
    assert everyday.excess(own, other) == pytest.approx(5.0, abs=3.5)
    assert everyday.excess(other, own) == pytest.approx(-everyday.excess(own, other))
    # One wrong row alone tells nothing.
    one = np.zeros(100)
    one[0] = 1.0
    assert everyday.excess(one, np.zeros(100)) < 1.5


def test_the_table_names_what_is_worse(tmp_path, capsys):
    rows = pd.DataFrame(
        {
            "problem": ["a", "a", "a", "b"],
            "rows": 20,
            "seed": 0,
            "estimator": ["KernelSVC", "TunedKernelSVC", "exact", "KernelSVC"],
            "loss": [0.4, 0.22, 0.2, 0.1],
            "trivial": 0.3,
            "linear": 0.2,
            "seconds": 0.1,
            "worse": ["trivial linear", None, None, None],
            "said": None,
        }
    )
    document = tmp_path / "page.md"
    document.write_text(f"before\n{everyday.BEGIN}old\n{everyday.END}after\n")
    everyday.write(document, everyday.table(rows))
    text = document.read_text()
    assert "| KernelSVC | 2 | 1.25 | a | a |\n" in text
    assert "| a | 1.10 |\n" in text
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after\n")
    everyday.show(rows)
    assert "worse than the trivial model: 1 of 3" in capsys.readouterr().out


def test_the_page_says_why_an_estimator_is_behind_the_linear_model():
    text = DOCUMENT.read_text()
    table, _, reasons = text.partition(everyday.BEGIN)[2].partition(everyday.END)
    behind = [
        line.split(" | ")[0].strip("| ")
        for line in table.partition("\n\n| problem")[0].splitlines()[3:]
        if line.rstrip("| ").count("|") == 5
    ]
    assert behind
    assert not [name for name in behind if name not in reasons]
