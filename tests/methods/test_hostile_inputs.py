"""Hostile inputs to all classifiers and regressors: the answer is right, or a clear ValueError.

The judge is independent of the estimators: a classifier has to be as accurate on its training rows
as the nearest class mean, computed here in float64 on standardised features, and a regressor has to
have a smaller squared error than the mean of the targets, unless the input carries no information.
"""

import inspect
import math
import re
import traceback
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from all_machines import Machine, build, machines
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

import kbench.methods
from kbench.errors import UnavailableError
from kbench.methods import ApproximateRidgeClassifier
from kbench.trace import Trace


def blobs(n=60, d=3):
    """Two normal classes five standard deviations apart, and a smooth target."""
    rng = np.random.RandomState(0)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, 0] += 5.0 * y
    return X, y


def nearest_mean_accuracy(X, y):
    X = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    scale = np.abs(X - X.mean(axis=0)).max(axis=0)
    X = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    labels = np.unique(y)
    means = np.array([X[y == label].mean(axis=0) for label in labels])
    nearest = np.argmin(((X[:, None] - means) ** 2).sum(axis=2), axis=1)
    return np.mean(labels[nearest] == y)


def scaled(factor, dtype=np.float64):
    def make():
        X, y = blobs()
        return (X * factor).astype(dtype), y

    return make


def shifted():
    X, y = blobs()
    return X + 1e12, y


def constant_columns():
    X, y = blobs()
    return np.hstack([X, np.full((len(X), 2), 7.0)]), y


def equal_rows():
    X, y = blobs(10)
    return np.repeat(X, 40, axis=0), np.repeat(y, 40)


def explicit_zeros():
    X, y = blobs()
    matrix = sp.csr_array(X)
    matrix.data[::7] = 0.0
    return matrix, y


def wide():
    X, y = blobs(20)
    wide = np.zeros((20, 5_000), np.float32)
    wide[:, :3] = X
    return wide, y


SCALES = (1e-300, 1e-160, 1e-40, 1e30, 1e160)
RIGHT = {
    **{f"scale {factor:g}": scaled(factor) for factor in SCALES},
    "float32 scale 1e-41": scaled(1e-41, np.float32),
    "float32 scale 1e25": scaled(1e25, np.float32),
    "shift 1e12": shifted,
    "constant columns": constant_columns,
    "equal rows": equal_rows,
    "explicit zeros": explicit_zeros,
    "5,000 features": wide,
}


def fitted(machine, X, y, **parameters):
    """The fitted estimator, or None after a ValueError of kbench or scikit-learn.

    One of NumPy or SciPy comes from numbers beyond the range of a computation.
    """
    model = build(machine)
    known = model.get_params()
    model.set_params(**{name: value for name, value in parameters.items() if name in known})
    with warnings.catch_warnings(action="ignore"):
        warnings.simplefilter("error", RuntimeWarning)
        try:
            return model.fit(X, y)
        except UnavailableError as error:
            pytest.skip(str(error))
        except ValueError as error:
            raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
            if not str(error).strip() or not re.search("kbench|sklearn", raised_in):
                raise
            return None


def require_right(X, y, model):
    with warnings.catch_warnings(action="ignore"):
        predicted = model.predict(X)
    assert predicted.shape == np.shape(y)
    if is_classifier(model):
        assert np.mean(predicted == y) >= min(0.95, nearest_mean_accuracy(X, y)) - 0.05
    elif is_regressor(model):
        assert np.isfinite(predicted).all()
        assert np.mean((predicted - y) ** 2) <= 1.0001 * np.var(y)


@pytest.mark.parametrize("case", RIGHT)
@pytest.mark.parametrize("machine", list(machines()), ids=str)
def test_right_or_refused(machine, case):
    X, y = RIGHT[case]()
    model = fitted(machine, X, y)
    if model is not None:
        require_right(X, y, model)


@pytest.mark.parametrize(("C", "random_labels"), [(1e-12, False), (1e12, False), (1e12, True)])
@pytest.mark.parametrize(
    "machine", [machine for machine in machines() if "C" in machine.names], ids=str,
)  # fmt: skip
def test_extreme_regularisation_ends_with_finite_values(machine, C, random_labels):
    X, y = blobs(80)
    if random_labels:
        y = np.random.RandomState(0).randint(0, 2, 80)
    model = fitted(machine, X, y, C=C, max_iter=300, max_time=2.0)
    if model is not None:
        predicted = model.predict(X)
        assert predicted.shape == y.shape
        assert set(predicted) <= {0, 1} or not is_classifier(model)
        if hasattr(model, "decision_function"):
            assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("machine", [m for m in machines() if "gamma" in m.names], ids=str)
def test_one_row_far_away_rounds_no_other_row(machine):
    """With the mean as their origin, float32 rows of size 1 were 16,384 apart: the scores were
    those of guesses, for every way to compute kernel values. Here with 1,200 rows, which the
    large-problem solvers take."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    model = build(machine)
    y = y if is_regressor(model) else (y > 0.0).astype(int)
    parameters = {name: 100 for name in ("n_components", "rank") if name in machine.names}
    scores = []
    for value in (1.0, 1e12):
        X[7, 1] = value
        fit = fitted(machine, X, y, gamma=0.5, max_iter=300, **parameters)
        if fit is None:
            return
        if hasattr(fit, "score"):
            scores.append(fit.score(X[100:], y[100:]))
        else:
            scores.append(np.mean(fit.predict(X[100:]) > 0))
    # Trees give the row a leaf of its own, and the others one less.
    assert scores[1] >= scores[0] - 0.1


@pytest.mark.parametrize("machine", [m for m in machines() if is_regressor(build(m))], ids=str)
def test_texts_are_no_targets_of_a_regression(machine):
    X, index = blobs()
    assert fitted(machine, X, np.array(["no", "yes"], object)[index]) is None


@pytest.mark.parametrize("machine", [m for m in machines() if is_classifier(build(m))], ids=str)
def test_a_row_without_a_label_is_refused(machine):
    X, index = blobs()
    for label in (None, np.nan, 3):
        y = np.array(["no", "yes"], object)[index]
        y[3] = label
        assert fitted(machine, X, y) is None


@pytest.mark.parametrize("machine", list(machines()), ids=str)
def test_masked_values_are_no_values(machine):
    X, y = blobs()
    y = y.astype(float)
    masked_rows, masked_y = np.ma.masked_array(X), np.ma.masked_array(y)
    masked_rows[3, 1] = masked_y[3] = np.ma.masked
    assert fitted(machine, masked_rows, y) is None
    assert is_outlier_detector(build(machine)) or fitted(machine, X, masked_y) is None
    model = fitted(machine, np.ma.masked_array(X), y)
    with pytest.raises(ValueError, match="masked"):
        model.predict(masked_rows)


def half_masked(values):
    return np.ma.masked_array(values, mask=np.arange(np.size(values)).reshape(np.shape(values)) % 2)


def masked_kernel(A, B):
    """A kernel whose values are all masked; of two rows, or of two blocks of rows."""
    return np.ma.masked_all((len(A), len(B)) if np.ndim(A) == 2 else ())


def takes(machine, name, value):
    """A model of the machine with this value of a parameter, or None if it does not take it."""
    if name not in machine.names:
        return None
    try:
        model = build(machine).set_params(**{name: value})
        model._validate_params()
    except (InvalidParameterError, ValueError):
        return None
    return model


@pytest.mark.filterwarnings("ignore:Warning. converting a masked element:UserWarning")
@pytest.mark.parametrize("machine", list(machines()), ids=str)
def test_masked_weights_widths_and_kernel_values_are_refused(machine):
    X, y = blobs()
    if "sample_weight" in inspect.signature(machine.cls.fit).parameters:
        for weight in (np.ones(60), 1.0 + np.arange(60) % 3, np.arange(60) % 3):
            with pytest.raises(ValueError, match="sample_weight has masked values; fill them"):
                build(machine).fit(X, y, sample_weight=half_masked(weight))
    if (model := takes(machine, "gamma", half_masked(np.ones(3)))) is not None:
        with pytest.raises(ValueError, match=r"gamma has masked values; fill them"):
            model.fit(X, y)
    if (model := takes(machine, "kernel", masked_kernel)) is not None:
        # scikit-learn's `pairwise_kernels`, which `KernelRidge` calls, makes NaNs of masked values.
        with pytest.raises(ValueError, match=r"the kernel has masked values; fill them|NaN"):
            model.fit(X, y)


@pytest.mark.parametrize("machine", [*machines()], ids=str)
def test_every_fit_ends_with_a_look_at_the_numbers_of_its_model(machine, monkeypatch):
    """Overflows that no input check foresees: the sums of the model's arrays are looked at."""
    looked_at = []

    def isfinite(value):
        looked_at.append(value)
        return math.isfinite(value)

    monkeypatch.setattr("kbench.methods.base.finished_fit.math", SimpleNamespace(isfinite=isfinite))
    model = build(machine)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X[:, 0] if is_regressor(model) else np.sign(X[:, 0])
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, y)
    assert looked_at


class Interrupted(Trace):
    """Ends a fit as Ctrl-C does, when a phase begins or ends for the time `at`."""

    def __init__(self, at):
        self.at, self.count = at, 0
        super().__init__()

    def _charge(self):
        self.count += 1
        if self.count == self.at:
            raise KeyboardInterrupt
        super()._charge()


@pytest.mark.parametrize("machine", list(machines()), ids=str)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_is_interrupted_leaves_the_estimator_as_it_was(machine):
    X, y = blobs()
    model, whole, other = build(machine), Interrupted(0), build(machine)
    predicted = model.fit(X, y, trace=whole).predict(X)
    for at in (2, whole.count // 2):
        with pytest.raises(KeyboardInterrupt):
            other.fit(X, y, trace=Interrupted(at))
        with pytest.raises(NotFittedError):
            other.predict(X)
        with pytest.raises(KeyboardInterrupt):
            model.fit(np.hstack([X, X]), y + 5, trace=Interrupted(at))
        np.testing.assert_array_equal(model.predict(X), predicted)


@pytest.mark.parametrize("machine", list(machines()), ids=str)
def test_one_class_is_refused_and_one_row_is_refused_or_predicted(machine):
    X, y = blobs()
    if is_classifier(build(machine)):
        assert fitted(machine, X, np.zeros(len(X), int)) is None
        assert fitted(machine, X[:1], y[:1]) is None
    else:
        model = fitted(machine, X[:1], y[:1].astype(float))
        assert model is None or np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("larger", [0, 1])
@pytest.mark.parametrize("machine", [m for m in machines() if is_classifier(build(m))], ids=str)
def test_equal_rows_of_two_classes_are_refused_or_of_the_most_frequent_one(machine, larger):
    X, y = np.ones((60, 3)), np.where(np.arange(60) % 5 > 1, larger, 1 - larger)
    model = fitted(machine, X, y)
    assert model is None or model.score(X, y) >= 0.6


@pytest.mark.parametrize("name", ["FalkonRegressor", "FalkonClassifier"])
def test_falkon_says_that_columns_are_lost_beside_one_of_a_million(name):
    X, y = blobs()
    X[:, 2] += 1e6
    machine = build(Machine(getattr(kbench.methods, name)))
    for alpha in (1.0, 1e-10):
        with pytest.warns(UserWarning, match="scale the columns"):
            machine.set_params(kernel="linear", alpha=alpha).fit(X, y)


@pytest.mark.parametrize("machine", list(machines()), ids=str)
def test_rows_far_beyond_float32_are_predicted_or_refused(machine):
    X, y = blobs()
    model = fitted(machine, X, y)
    beyond = (np.full((4, 3), 3e38, np.float32), np.full((4, 3), 1e300), 1e150 * X[:4])
    for rows in (*beyond, sp.csr_array(beyond[-1])):
        try:
            predicted = model.predict(rows)
            values = getattr(model, "decision_function", model.predict)(rows)
        except ValueError as error:
            assert "should be at most" in str(error) or "too large for" in str(error)  # noqa: PT017
        else:
            assert predicted.shape == (4,)
            assert np.isfinite(values).all()


# Float64 predictions cost nothing for up to 512 centres.
@pytest.mark.parametrize("n", [100, 600])
@pytest.mark.parametrize(
    "machine",
    [m for m in machines() if m.cls.__module__.startswith("kbench.methods.exact")],
    ids=str,
)
def test_rows_of_two_distant_groups_keep_their_kernel_values(machine, n):
    """Rounded rows and products of centred ones lost what is near beside what is far."""
    model = takes(machine, "kernel", "precomputed")
    if model is None:
        return
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = (y > 0.0).astype(int) if is_classifier(model) else y
    X[::2, 0] += 1e7
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    parameters = {"tol": 1e-4, "alpha": 1.0, "nu": 0.2}
    parameters = {name: value for name, value in parameters.items() if name in machine.names}
    expected = model.set_params(**parameters).fit(K, y)
    model = build(machine).set_params(kernel="rbf", gamma=1.0, **parameters).fit(X, y)
    name = "decision_function" if hasattr(model, "decision_function") else "predict"
    values = getattr(model, name)(X), getattr(expected, name)(K)
    np.testing.assert_allclose(*values, atol=0.01 * np.abs(values[1]).max())


@pytest.mark.parametrize("machine", [m for m in machines() if "n_leaves" in m.names], ids=str)
def test_rows_far_from_zero_have_the_leaves_of_rows_near_it(machine):
    """Centres in float32 were equal at 1e8, so that one leaf had all rows."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((400, 2)), 3)
    y = (X[:, 0] > 0.0).astype(int)
    sizes = []
    for offset in (20.0 * 2.0**4, 2.0**27):
        model = build(machine).set_params(n_leaves=8).fit(X + offset, y)
        sizes.append(np.bincount(model.labels_).tolist())
    assert len(sizes[0]) > 1
    assert sizes[0] == sizes[1]


# One machine of each engine: the exact solvers large and small, linear dual, low rank, compressed,
# divided, stochastic and leaves.
ENGINES = (
    "KernelSVC",
    "LinearizedSVC",
    "ApproximateRidgeClassifier",
    "HSSADMMClassifier",
    "DCSVC",
    "DoublySGDClassifier",
    "DCPredClassifier",
)


@pytest.mark.parametrize("name", ENGINES)
def test_ten_rows_ten_thousand_times_each(name):
    X, y = blobs(10)
    X, y = np.repeat(X, 10_000, axis=0).astype(np.float32), np.repeat(y, 10_000)
    model = fitted(Machine(getattr(kbench.methods, name)), X, y)
    assert model is not None
    require_right(X[::1000], y[::1000], model)


@pytest.mark.parametrize(("seed", "weighted"), [(0, False), (1, True)])
def test_repeated_rows_keep_the_digits_of_ridge_machines(seed, weighted):
    """Eigenvalues of 10^4 alpha and more; with so many equal rows ridge machines interpolate."""
    X, y = blobs(10)
    X, y = np.repeat(X, 10_000, axis=0).astype(np.float32), np.repeat(y, 10_000)
    weight = np.full(len(y), 0.5) if weighted else None
    model = ApproximateRidgeClassifier(random_state=seed).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.decision_function(X[::10_000]), 2 * y[::10_000] - 1, atol=1e-3)
