"""Weights of rows and classes that make no machine are refused by every estimator, in one way."""

import inspect
import itertools
import re
import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from all_machines import build, machines
from sklearn.base import is_classifier
from sklearn.datasets import load_iris
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils.class_weight import compute_sample_weight

from kbench import validated
from kbench.methods import KernelNuSVC, KernelNuSVR, KernelOneClassSVM, KernelSVC, KernelSVR
from kbench.methods.automatic.self_tuning import SelfTuning

X, Y = load_iris(return_X_y=True)
MACHINES = list(machines())
OF_CLASSES = [machine for machine in MACHINES if "class_weight" in machine.names]
OF_ROWS = [
    machine
    for machine in MACHINES
    if "sample_weight" in inspect.signature(machine.cls.fit).parameters
]
NEGATIVE_IS_ABSENT = {"KernelNuSVC", "KernelNuSVR", "KernelOneClassSVM", "KernelSVC", "KernelSVR"}
WRONG_OF_CLASSES = [
    {0: -1.0, 1: 1.0, 2: 1.0},
    {0: -1.0, 1: -1.0, 2: -1.0},
    {0: np.nan, 1: 1.0, 2: 1.0},
    {0: np.inf, 1: 1.0, 2: 1.0},
    {0: 0.0, 1: 1.0, 2: 1.0},
    {0: 0.0, 1: 0.0, 2: 0.0},
]
WRONG_OF_ROWS = [
    np.nan,
    np.inf,
    0.0,
    np.zeros(150),
    np.where(np.arange(150) == 3, np.nan, 1.0),
    np.where(np.arange(150) == 3, np.inf, 1.0),
    np.ones(149),
    np.ones((150, 2)),
]


def refuses(model, *arguments, match):
    with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match=match):
        model.fit(*arguments)


@pytest.mark.parametrize("machine", OF_CLASSES, ids=str)
def test_weights_of_classes_are_positive_and_finite(machine):
    models = [build(machine)]
    if "probability" in machine.names:
        models.append(build(machine).set_params(probability=True))
    said = "class_weight of class 0 is .* weights of classes must be positive"
    for model, weights in itertools.product(models, WRONG_OF_CLASSES):
        refuses(model.set_params(class_weight=weights), X, Y, match=said)


@pytest.mark.parametrize("machine", OF_ROWS, ids=str)
def test_weights_of_rows_are_finite_and_not_all_zero(machine):
    for weight in WRONG_OF_ROWS:
        refuses(build(machine), X, Y, weight, match="sample_weight|weights")


@pytest.mark.parametrize(
    "machine",
    [machine for machine in OF_ROWS if machine.cls.__name__ not in NEGATIVE_IS_ABSENT],
    ids=str,
)
def test_weights_of_rows_are_not_negative(machine):
    for weight in (-1.0, np.where(np.arange(150) == 3, -1.0, 1.0)):
        refuses(
            build(machine), X, Y, weight, match="Negative values in sample_weight|no sample_weight"
        )


@pytest.mark.parametrize(
    "machine", [machine for machine in OF_ROWS if is_classifier(build(machine))], ids=str
)
def test_a_class_without_weight_is_refused(machine):
    refuses(build(machine), X, Y, 1.0 * (Y != 1), match="class 1 have a weight of zero|no sample_w")
    refuses(build(machine), X, Y, 1.0 * (Y == 1), match="belong to the same class|no sample_w")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (KernelSVC, SVC),
        (KernelSVR, SVR),
        (KernelNuSVC, NuSVC),
        (KernelNuSVR, NuSVR),
        (KernelOneClassSVM, OneClassSVM),
    ],
)
def test_negative_weights_are_absent_rows_as_in_svc(ours, theirs):
    rng = np.random.default_rng(0)
    weight = rng.normal(0.5, 1.0, 150)
    a = ours(gamma=0.5, tol=1e-7).fit(X, Y, weight)
    b = theirs(gamma=0.5, tol=1e-7).fit(X, Y, weight)
    # SVC counts the rows that are left.
    np.testing.assert_array_equal(a.support_, np.flatnonzero(weight > 0.0)[b.support_])
    np.testing.assert_allclose(a.dual_coef_, b.dual_coef_, atol=1e-4)
    assert np.all(weight[a.support_] > 0.0)


@pytest.mark.parametrize("weights", [{1: 1.4}, "balanced"], ids=str)
@pytest.mark.parametrize("machine", [one for one in OF_CLASSES if one in OF_ROWS], ids=str)
def test_the_weight_of_a_class_is_that_of_its_rows(machine, weights):
    rows, y, own = X[25:], Y[25:], 1.0 + np.arange(125) % 2
    if issubclass(machine.cls, SelfTuning):  # whose weights count relative to their mean
        own = np.ones(125)
    by_row = own * compute_sample_weight(weights, y)
    with warnings.catch_warnings(action="ignore"):
        try:
            b = build(machine).fit(rows, y, by_row).decision_function(X)
        except ValueError as error:
            assert "sample_weight" in str(error)  # noqa: PT017
            return
        model = build(machine).set_params(class_weight=weights)
        a = model.fit(rows, y, own).decision_function(X)
    np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(b).max())


@pytest.mark.parametrize("machine", OF_ROWS, ids=str)
def test_a_number_is_the_weight_of_every_row_and_pandas_integers_are_weights(machine):
    X2, Y2 = X[:100], Y[:100]
    with warnings.catch_warnings(action="ignore"):
        try:
            a = build(machine).fit(X2, Y2, np.full(100, 2.0)).predict(X2)
        except ValueError as error:
            assert "sample_weight" in str(error)  # noqa: PT017
            return
        for same in (2.0, pandas.Series(np.full(100, 2), dtype="Int64")):
            np.testing.assert_array_equal(build(machine).fit(X2, Y2, same).predict(X2), a)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("machine", OF_ROWS, ids=str)
def test_a_row_of_weight_zero_is_as_if_it_were_not_there(machine, container):
    """Far rows of no weight had a part in gamma="scale", in clusters and in random draws."""
    rng = np.random.default_rng(0)
    weight = np.where(rng.random(len(Y)) < 0.3, 0.0, 1.0 + np.arange(len(Y)) % 2)
    rows, kept = np.where(weight[:, None] > 0.0, X, 30.0 * X[:, ::-1]), weight > 0.0
    parameters = {}
    if getattr(machine.cls, "sees_unweighted_rows", False):  # as scikit-learn's, in "scale"
        parameters = {"gamma": 0.3} | ({"alpha": 0.1} if "alpha" in machine.names else {})
    models = [build(machine).set_params(**parameters) for _ in range(2)]
    with warnings.catch_warnings(action="ignore"):
        try:
            models[0].fit(container(rows), Y, weight)
        except ValueError as error:
            assert "no sample_weight" in str(error)  # noqa: PT017
            return
        models[1].fit(container(rows[kept]), Y[kept], weight[kept])
    a, b = (getattr(one, "decision_function", one.predict)(X) for one in models)
    np.testing.assert_allclose(a, b, atol=1e-2 * np.abs(b).max() if parameters else 0.0)
    if not parameters:
        for name in set(validated._ROW_INDEX_ATTRIBUTES) & set(vars(models[0])):
            numbers, among = (np.concatenate([vars(model)[name]], axis=None) for model in models)
            np.testing.assert_array_equal(numbers, np.flatnonzero(kept)[among])


def separated(y):
    """Rows (n, 3) of two classes y : (n,) whose means are five deviations apart."""
    rows = np.random.default_rng(0).normal(size=(len(y), 3))
    return rows + 5.0 * y[:, None] * [1, 0, 0]


@pytest.mark.parametrize("weights", [{0: 2.0, 1: 1.0}, {0: 1.0, 1: 2.5}], ids=str)
@pytest.mark.parametrize("machine", OF_CLASSES, ids=str)
def test_weights_of_classes_leave_separated_classes_apart(machine, weights):
    """A search without the weights had chosen a C with which the final model has one class."""
    y = np.arange(60) % 2
    rows = separated(y)
    with warnings.catch_warnings(action="ignore"):
        assert build(machine).set_params(class_weight=weights).fit(rows, y).score(rows, y) >= 0.9


# Their models see some of the rows, among which weights that balance all rows balance nothing.
OF_PARTS = {"DCPredClassifier", "DCPredTrainedClassifier", "DCSVC", "SubsampleSVC"}


@pytest.mark.parametrize("C", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize("sizes", [(7, 53), (11, 19), (30, 30), (49, 50)], ids=str)
@pytest.mark.parametrize(
    "machine", [m for m in OF_CLASSES if "C" in m.names and m.cls.__name__ not in OF_PARTS], ids=str
)
def test_balanced_classes_whose_rows_are_all_at_the_bound_have_the_middle_as_intercept(
    machine, sizes, C
):
    """Sums of bounds that differ by 1e-16 leave one row free, from which `SVC` takes the intercept:
    it puts every row into one class."""
    y = np.repeat([0, 1], sizes)
    rows = separated(y)
    with warnings.catch_warnings(action="ignore"):
        model = build(machine).set_params(C=C, class_weight="balanced").fit(rows, y)
    assert model.score(rows, y) >= 0.9 or not hasattr(model, "intercept_")


@pytest.mark.parametrize("factor", [2.0**60, 2.0**-60])
@pytest.mark.parametrize(
    "machine",
    [m for m in OF_ROWS if "time_budget" in m.names or ("nu" in m.names and "C" not in m.names)],
    ids=str,
)
def test_weights_of_rows_are_relative_where_no_C_is_given(machine, factor):
    rows, y = X[:100], Y[:100]
    weight = 1.0 + np.arange(100) % 3
    a = build(machine).fit(rows, y, weight).predict(rows)
    b = build(machine).fit(rows, y, factor * weight).predict(rows)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [1e-300, 1e-25, 1e25, 1e308])
@pytest.mark.parametrize(
    "machine",
    [m for m in OF_ROWS if is_classifier(build(m)) and m.cls.__name__ not in OF_PARTS],
    ids=str,
)
def test_weights_of_any_size_are_followed_or_refused(machine, size):
    y = np.arange(60) % 2
    rows = separated(y)
    with warnings.catch_warnings(action="ignore"):
        try:
            model = build(machine).fit(rows, y, np.full(60, size))
        except ValueError as error:
            assert re.search("scale|no sample_weight", str(error))  # noqa: PT017
            return
    assert model.score(rows, y) >= 0.9
