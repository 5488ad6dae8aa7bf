"""Targets with a mean and a scale: estimates for s y + c are those for y, times s, plus c.

The rows are a power of two in number and the targets multiples of 2^-10, so that sums, means and
deviations of the moved targets have no rounding errors where c is a whole number and s a power of
two: an estimator that follows its targets then takes the same steps.
"""

import numpy as np
import pytest
from all_machines import build, machines
from chunk_rows import chunked
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags

from kbench.methods.exact.dual_regression import DualRegression
from kbench.width_search.tasks import centre_and_scale

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CHOOSING = [
    machine
    for machine in machines()
    if machine.cls.__module__.startswith("kbench.methods.automatic.")
    and is_regressor(build(machine))
]
# Without an intercept by definition, so that they do not have one unless they are asked.
RIDGES = [
    machine
    for machine in machines()
    if "alpha" in machine.names and "fit_intercept" in machine.names
]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=160)
    return X[:128], np.round(1024.0 * y[:128]) / 1024.0, X[128:]


def test_the_lists_are_not_empty():
    assert {m.cls.__name__ for m in CHOOSING} >= {"TunedKernelSVR", "RecursiveFeatureRegressor"}
    assert {m.cls.__name__ for m in RIDGES} >= {"KernelRidge", "FalkonRegressor", "HSSKernelRidge"}


@pytest.mark.parametrize("machine", CHOOSING, ids=str)
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 2.0**23), (2.0**-30, 0.0), (2.0**30, 2.0**50)])
def test_estimators_that_choose_for_themselves_follow_shift_and_scale(
    machine, scale, shift, problem
):
    X, y, new = problem
    plain = build(machine).fit(X, y).predict(new)
    moved = build(machine).fit(X, scale * y + shift).predict(new)
    # The rounding of the shift itself, and of float32 values.
    rounding = 1e-6 + 2.0 * np.spacing(abs(shift)) / scale
    np.testing.assert_allclose((moved - shift) / scale, plain, atol=rounding)


@pytest.mark.parametrize(
    "machine", [m for m in machines() if get_tags(build(m)).target_tags.multi_output], ids=str
)
def test_units_of_several_targets_do_not_matter(machine, problem):
    """One ridge for all targets was chosen by the one of the largest numbers."""
    X, y, new = problem
    noise = np.random.default_rng(1).integers(-1000, 1000, len(y))
    plain = build(machine).fit(X, np.column_stack([y, noise / 1024.0])).predict(new)
    moved = build(machine).fit(X, np.column_stack([y, 1024.0 * noise])).predict(new)
    np.testing.assert_allclose(moved / [1.0, 2.0**20], plain, atol=1e-6)


# Their search takes seconds, and their last model is one of the others.
@pytest.mark.parametrize(
    "machine",
    [m for m in machines() if is_regressor(build(m)) and not m.cls.__name__.startswith("Tuned")],
    ids=str,
)
def test_digits_of_more_centres_than_float64_costs_nothing_for_do_not_depend_on_the_unit(machine):
    """Coefficients that cancel: float32 kernel values were taken for what is small beside 1."""
    rng = np.random.default_rng(0)
    X, new = np.split(np.round(128.0 * rng.normal(size=(680, 2))) / 128.0, [640])
    y = np.round(1024.0 * np.sin(2.0 * X[:, 0]) + 10.0 * rng.normal(size=640)) / 1024.0
    predicted = []
    for unit in (1.0, 2.0**-20):
        values = {"gamma": 0.3, "alpha": 1e-5, "n_components": 600}
        if "C" in machine.names:
            values |= {"C": 1e3 * unit, "epsilon": 0.01 * unit, "tol": 1e-3 * unit}
        model = build(machine)
        model.set_params(**{k: v for k, v in values.items() if k in machine.names})
        predicted.append(model.fit(X, unit * y).predict(new) / unit)
    np.testing.assert_allclose(*predicted, atol=1e-6)


@pytest.mark.parametrize("machine", [m for m in RIDGES if is_regressor(build(m))], ids=str)
def test_ridge_regressions_with_an_intercept_follow_a_shift(machine, problem):
    X, y, new = problem
    without = build(machine).fit(X, y - y.mean())
    assert not hasattr(without, "intercept_")
    model = build(machine).set_params(fit_intercept=True)
    plain = model.fit(X, y).predict(new)
    assert model.intercept_ == pytest.approx(y.mean())
    np.testing.assert_allclose(without.predict(new) + y.mean(), plain)
    moved = model.fit(X, y + 2.0**23).predict(new)
    np.testing.assert_allclose(moved - 2.0**23, plain, atol=1e-6)
    assert not hasattr(model.set_params(fit_intercept=False).fit(X, y), "intercept_")


@pytest.mark.parametrize(
    "machine", [m for m in RIDGES if getattr(build(m), "accepts_chunks", False)], ids=str
)
def test_rows_in_chunks_have_the_intercept_of_rows_in_memory(machine, problem):
    X, y, new = problem
    targets = (y > 0.5).astype(int) if is_classifier(build(machine)) else y
    model = build(machine).set_params(fit_intercept=True)
    expected = model.fit(X, targets).intercept_
    rows = chunked(X.astype(np.float32), targets)
    plain = model.fit(rows).predict(new)
    np.testing.assert_allclose(model.intercept_, expected)
    if is_regressor(model):
        moved = model.fit(chunked(X.astype(np.float32), y + 2.0**23)).predict(new)
        np.testing.assert_allclose(moved - 2.0**23, plain, atol=1e-6)


# Random features do not vanish away from the rows.
@pytest.mark.parametrize(
    "machine",
    [m for m in RIDGES if is_classifier(build(m)) and "RandomFeatures" not in str(m)],
    ids=str,
)
def test_ridge_classifiers_with_an_intercept_predict_the_majority_far_from_all_rows(
    machine, problem
):
    X, y, _ = problem
    model = build(machine).set_params(fit_intercept=True).fit(X, (y > 0.5).astype(int))
    value = model.decision_function(1e6 * np.ones((1, 3)))
    np.testing.assert_allclose(value, 2.0 * np.mean(y > 0.5) - 1.0, atol=1e-6)


@pytest.mark.parametrize("machine", CHOOSING, ids=str)
def test_few_wrong_targets_do_not_decide_for_models_of_absolute_errors(machine, problem):
    X, y, new = problem
    spoilt = y.copy()
    spoilt[::32] += np.array([100.0, -100.0, 100.0, -100.0])
    plain = build(machine).fit(X, y).predict(new)
    off = np.mean((build(machine).fit(X, spoilt).predict(new) - plain) ** 2)
    if "epsilon_" in machine.cls.__doc__:
        assert off < 0.25 * np.var(plain)
    else:
        # Squares of errors are what the others minimise; a constant is what is left.
        assert off < 2.0 * (np.var(plain) + np.mean(spoilt - y) ** 2)


@pytest.mark.parametrize("size", [10.0, 1e4])
@pytest.mark.parametrize("machine", [m for m in CHOOSING if "epsilon_" in m.cls.__doc__], ids=str)
def test_few_wrong_targets_do_not_widen_the_tube(machine, size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(256, 3))
    y = 2.0 * np.sin(X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=256)
    spoilt = y.copy()
    spoilt[::32] += size * rng.choice([-1.0, 1.0], 8)
    tubes = [build(machine).set_params(metric=None).fit(X, t).epsilon_ for t in (y, spoilt)]
    # Three per cent of the errors count as three deviations: sqrt(1 + .03 x 9) = 1.13.
    assert tubes[1] < 2.0 * tubes[0]


@pytest.mark.parametrize("shift", [0.0, 2.0**23])
@pytest.mark.parametrize("scale", [1.0, 2.0**-30, 2.0**30])
def test_heavy_tailed_targets_have_a_robust_unit_that_follows_shift_and_scale(scale, shift):
    rng = np.random.default_rng(0)
    y = np.round(1024.0 * rng.standard_t(1.0, size=513)) / 1024.0
    centre, unit, largest = centre_and_scale(y)
    moved = centre_and_scale(scale * y + shift * scale)
    np.testing.assert_allclose(moved, [scale * (centre + shift), scale * unit, largest])
    # A thousand times as large an outlier changes nothing.
    y[y.argmax()] *= 1000.0
    assert centre_and_scale(y) == (centre, unit, largest)
    normal = rng.normal(size=513)
    assert centre_and_scale(normal) == (normal.mean(), normal.std(), np.inf)


@pytest.mark.parametrize("size", [1e-300, 2e-30, 5e29, 1e300])
@pytest.mark.parametrize("machine", [m for m in machines() if is_regressor(build(m))], ids=str)
def test_targets_of_any_size_are_followed_or_refused(machine, size, problem):
    X, y, _ = problem
    y = size * y / np.abs(y).max()
    if not 1e-31 < size < 1e31:
        with pytest.raises(ValueError, match=r"largest absolute value of y is .*; scale the targ"):
            build(machine).fit(X, y)
        return
    if issubclass(machine.cls, DualRegression):
        pytest.skip("C, epsilon and tol are in units of the targets")
    try:
        predicted = build(machine).fit(X, y).predict(X)
    except ValueError as error:
        assert "beyond all bounds" in str(error)  # noqa: PT017
        return
    assert np.mean((predicted / size - y / size) ** 2) < 0.5 * np.var(y / size)
