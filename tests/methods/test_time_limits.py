"""`max_time` of every estimator that iterates: it ends the fit, which keeps what it has."""

import warnings

import numpy as np
import pytest
from all_machines import SKIPPED, build, machines
from counted_clock import CountedClock
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.exceptions import ConvergenceWarning

# Parameters of an estimator that iterates.
ITERATES = {"tol", "max_iter", "n_epochs", "epochs", "n_rounds"}
# The self-tuning estimators have their own name for the limit, which ends their search.
BUDGETED = {"TunedKernelSVC", "TunedKernelSVR", "TunedKernelRidge"}
# Stochastic gradients have no criterion to converge to: a limit in time takes the place of
# `n_epochs`, and nothing warns.
PASSES = {"DoublySGDClassifier", "DoublySGDRegressor", "KernelSDCA", "NORMA", "PegasosClassifier"}
LIMITED = [machine for machine in machines() if "max_time" in machine.names]


def supervised(candidates):
    """Those that a constant can be compared with: they have targets."""
    return [machine for machine in candidates if not is_outlier_detector(build(machine))]


# They iterate only with these settings, or so seldom that a limit meets nothing without them.
SETTINGS = {
    "ApproximateRidge": {"solver": "cg", "alpha": 1e-3},
    "ApproximateRidgeClassifier": {"solver": "cg", "alpha": 1e-3},
    "HSSADMMClassifier": {"polish": True},
    "DCSVC": {"combine": "exact"},
    "KernelRidge": {"solver": "pcg", "n_landmarks": 2, "alpha": 1e-3},
    "KernelRidgeClassifier": {"solver": "pcg", "n_landmarks": 2, "alpha": 1e-3},
    "DCKernelRidge": {"alpha": 1e-3, "tol": 1e-14},
    "DCKernelRidgeClassifier": {"alpha": 1e-3, "tol": 1e-14},
    "FalkonRegressor": {"alpha": 1e-3, "preconditioner_rows": 0, "tol": 1e-12},
    "FalkonClassifier": {"alpha": 1e-3, "preconditioner_rows": 0, "tol": 1e-12},
}


def random_labels(n=120):
    rng = np.random.RandomState(0)
    return rng.normal(size=(n, 3)), rng.randint(0, 2, n)


def limited(machine, max_time):
    model = build(machine)
    known = model.get_params()
    settings = SETTINGS.get(type(model).__name__, {}) | {"max_time": max_time}
    if "C" in known:
        settings["C"] = 1e12
    return model.set_params(**settings)


def test_every_estimator_that_iterates_has_a_limit():
    iterating = [machine for machine in machines() if ITERATES & set(machine.names)]
    names = {machine.cls.__name__ for machine in iterating}
    assert names - {machine.cls.__name__ for machine in LIMITED} == BUDGETED & names
    assert {"IntelexSVC", "JointConvolutionClassifier"} < SKIPPED  # oneDAL has none; PyTorch's has


@pytest.mark.filterwarnings("ignore:.* is more than n_samples:UserWarning")
@pytest.mark.parametrize("machine", LIMITED, ids=str)
def test_a_limit_of_no_time_ends_a_fit_of_random_labels_with_a_usable_model(machine):
    X, y = random_labels()
    model = limited(machine, 0.0)
    assert clone(model).get_params()["max_time"] == 0.0
    if type(model).__name__ in PASSES:
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            model.fit(X, y)
        assert model.n_iter_ == 1
    else:
        with pytest.warns(ConvergenceWarning, match="max_time") as warned:
            model.fit(X, y)
        # A warning names the line that called fit.
        assert {w.filename for w in warned if w.category is ConvergenceWarning} == {__file__}
    assert model.predict(X).shape == y.shape
    if is_classifier(model):
        assert np.isfinite(model.decision_function(X)).all()
        assert set(model.predict(X)) <= {0, 1}


@pytest.mark.parametrize("machine", LIMITED, ids=str)
def test_a_limit_that_is_not_met_changes_nothing(machine):
    rng = np.random.RandomState(1)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + y[:, None]
    without, within = build(machine), build(machine).set_params(max_time=1e6)
    with warnings.catch_warnings(record=True, action="always") as caught:
        without.fit(X, y)
        within.fit(X, y)
    assert not [w for w in caught if "max_time" in str(w.message)]
    assert np.array_equal(without.predict(X), within.predict(X))


def heavy_tailed(df, n=200):
    """Rows and noise of Student's t distribution; targets, and two and three classes."""
    rng = np.random.RandomState(0)
    X, noise = rng.standard_t(df, size=(n, 4)), rng.standard_t(df, size=n)
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * np.exp(-(X[:, 2] ** 2))
    return X, f + noise, np.where(f + 0.3 * noise < 0.4, 1, 0), np.digitize(f, [-0.5, 0.6])


def require_no_worse_than_a_constant(model, X, y, limits):
    """The stopped model against the mean of the targets or the most frequent class.

    limits : parameters that stopped it
    """
    predicted = model.predict(X)
    if is_classifier(model):
        assert np.mean(predicted == y) >= np.bincount(y).max() / len(y)
        return
    # A regression minimises squares of y, or absolute errors from a constant.
    squares = np.mean((predicted - y) ** 2)
    errors = np.abs(predicted - y).mean() <= 1.001 * np.abs(y - np.median(y)).mean()
    if not errors and squares > 1.001 * np.mean(y**2):
        # Averages of machines that fit their own rows exactly may be worse at the others.
        finished = clone(model).set_params(**limits).fit(X, y).predict(X)
        assert squares <= 1.001 * np.mean((finished - y) ** 2)


# Degrees of freedom of the noise: few are heavy tails, many are nearly normal.
@pytest.mark.parametrize(
    ("reads", "df"), [(1, 1.5), (6, 1000.0), (12, 1.5), (30, 1000.0), (80, 1.5)]
)
@pytest.mark.parametrize("machine", supervised(LIMITED), ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_stopped_fit_is_no_worse_than_the_mean_or_the_most_frequent_class(machine, reads, df):
    X, targets, two, three = heavy_tailed(df)
    model = limited(machine, float(reads))
    if "C" in model.get_params():
        model.set_params(C=50.0)
    for y in (two, three) if is_classifier(model) else (targets,):
        with warnings.catch_warnings(record=True, action="always") as caught:
            model.fit(X, y, trace=CountedClock())
        if not any("max_time" in str(warning.message) for warning in caught):
            continue  # the limit was not met
        require_no_worse_than_a_constant(model, X, y, {"max_time": None})


COUNTED = [machine for machine in machines() if "max_iter" in machine.names]


@pytest.mark.parametrize(("steps", "df"), [(1, 1.5), (2, 1000.0), (7, 1.5), (40, 1000.0)])
@pytest.mark.parametrize("machine", supervised(COUNTED), ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* is more than n_samples:UserWarning")
def test_a_fit_of_few_steps_says_so_and_is_no_worse_than_the_mean_or_the_most_frequent_class(
    machine, steps, df
):
    X, targets, two, three = heavy_tailed(df)
    model = limited(machine, None).set_params(max_iter=steps)
    if "C" in model.get_params():
        model.set_params(C=50.0)
    finished = build(machine).get_params()["max_iter"]
    for y in (two, three) if is_classifier(model) else (targets,):
        with warnings.catch_warnings(record=True, action="always") as caught:
            model.fit(X, y)
        if not np.all(getattr(model, "converged_", True)):
            said = [w for w in caught if w.category is ConvergenceWarning]
            assert any("stopped by max_iter" in str(w.message) for w in said)
            assert {w.filename for w in said} == {__file__}
        require_no_worse_than_a_constant(model, X, y, {"max_iter": finished})


@pytest.mark.parametrize("tol", [1000.0, 1.0, 0.2])
@pytest.mark.parametrize(
    "machine", [one for one in supervised(machines()) if "tol" in one.names], ids=str
)
def test_a_fit_of_a_loose_tolerance_is_no_worse_than_the_mean_or_the_most_frequent_class(
    machine, tol
):
    """At a violation of 1 a model may be 0 everywhere, which rounding decides."""
    X, targets, two, three = heavy_tailed(6)
    model = build(machine).set_params(tol=tol)
    for y in (two, three) if is_classifier(model) else (targets,):
        with warnings.catch_warnings(action="ignore"):
            model.fit(X, y)
        require_no_worse_than_a_constant(model, X, y, {"tol": build(machine).tol})
