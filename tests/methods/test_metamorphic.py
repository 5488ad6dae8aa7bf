"""What leaves the problem as it is leaves the predictions as they are, for every estimator.

Rows, columns and labels in another order or under other names, rows moved and scaled, other types
and layouts of the same numbers. An estimator without `random_state` has to give the same
predictions but for rounding. One that draws rows or features draws others where their order
changes, so that it has to predict as well as before: labels of two classes four deviations apart,
and a smooth target.
"""

import inspect
import warnings

import numpy as np
import pytest
from all_machines import build, machines
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

MACHINES = list(machines())
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 160)
# Multiples of 2^-7, so that float32 holds them, and moved and scaled rows have the same digits.
X = np.round(128.0 * RNG.normal(size=(160, 4)) + 512.0 * LABELS[:, None] * [1, 0, 0, 0]) / 128.0
TARGETS = np.round(1024.0 * (np.sin(X[:, 0]) + 0.5 * X[:, 1])) / 1024.0
N = 128
ROWS, COLUMNS = RNG.permutation(N), RNG.permutation(4)


def fitted(machine, rows, y, **arguments):
    """The model of rows, which draws nothing from NumPy's own generator: that would hide a draw."""
    state = check_random_state(None).get_state()[1].copy()
    with warnings.catch_warnings(action="ignore"):
        model = build(machine).fit(rows, y, **arguments)
    np.testing.assert_array_equal(check_random_state(None).get_state()[1], state)
    return model


def targets(machine):
    return LABELS if is_classifier(build(machine)) else TARGETS


_PLAIN: dict[str, np.ndarray] = {}


def plain(machine):
    """Predictions at the rows held out, of a fit to the others as they are."""
    if str(machine) not in _PLAIN:
        model = fitted(machine, X[:N], targets(machine)[:N])
        _PLAIN[str(machine)] = model.predict(X[N:])
    return _PLAIN[str(machine)]


def require_same(machine, predicted, *, tight=None, expected=None, factor=1.5):
    """`tight` is whether the same rows and features are drawn; None asks for `random_state`.

    Otherwise the squared error of a regression may be that of `expected` times `factor`.
    """
    expected = plain(machine) if expected is None else expected
    truth = targets(machine)[N:]
    tight = "random_state" not in machine.names if tight is None else tight
    if is_classifier(build(machine)):
        allowed = 0.0 if tight else 2.0 / len(truth)
        assert np.mean(predicted != truth) <= np.mean(expected != truth) + allowed
    elif tight:
        np.testing.assert_allclose(predicted, expected, atol=5e-3)
    else:
        error, before = (np.mean((p - truth) ** 2) for p in (predicted, expected))
        assert error <= factor * before + 0.05 * np.var(truth)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_rows_in_another_order(machine):
    model = fitted(machine, X[ROWS], targets(machine)[ROWS])
    require_same(machine, model.predict(X[N:]))


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_columns_in_another_order(machine):
    model = fitted(machine, X[:N, COLUMNS], targets(machine)[:N])
    require_same(machine, model.predict(X[N:, COLUMNS]))


@pytest.mark.parametrize("machine", [m for m in MACHINES if is_classifier(build(m))], ids=str)
@pytest.mark.parametrize("names", [("b", "a"), (False, True), (7, -7)], ids=str)
def test_labels_under_other_names(machine, names):
    names = np.array(names)
    predicted = fitted(machine, X[:N], names[LABELS[:N]]).predict(X[N:])
    assert predicted.dtype.kind == names.dtype.kind
    in_order = names[0] < names[1] or names.dtype == bool
    back = (predicted == names[1]).astype(int)
    assert set(predicted) <= set(names)
    require_same(machine, back, tight=True if in_order else None)


@pytest.mark.parametrize(("scale", "shift"), [(2.0**-10, 2.0**-5), (2.0**10, -4096.0)])
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_rows_moved_and_scaled(machine, scale, shift):
    moved = scale * X + shift
    predicted = fitted(machine, moved[:N], targets(machine)[:N]).predict(moved[N:])
    require_same(machine, predicted)


# Lists are in scikit-learn's checks, sparse rows and frames in test_containers.py.
CONTAINERS = {
    "float32": lambda rows: rows.astype(np.float32),
    "big-endian, columns of a Fortran array": lambda rows: np.asfortranarray(
        np.repeat(rows, 2, axis=1).astype(">f8")
    )[:, ::2],
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_same_numbers_in_another_container(machine, container):
    make = CONTAINERS[container]
    predicted = fitted(machine, make(X[:N]), targets(machine)[:N]).predict(make(X[N:]))
    require_same(machine, predicted)


WEIGHTED = [m for m in MACHINES if "sample_weight" in inspect.signature(m.cls.fit).parameters]


@pytest.mark.parametrize("machine", WEIGHTED, ids=str)
def test_rows_twice_are_rows_of_weight_two(machine):
    y = targets(machine)[:N]
    try:
        weighted = fitted(machine, X[:N], y, sample_weight=np.full(N, 2.0))
    except (TypeError, ValueError) as error:
        assert "sample_weight" in str(error)  # noqa: PT017
        return
    twice = fitted(machine, X[:N].repeat(2, axis=0), y.repeat(2)).predict(X[N:])
    # Solvers stop at a tolerance. Eight landmarks are few: other ones have up to twice the error.
    require_same(machine, twice, tight=False, expected=weighted.predict(X[N:]), factor=3.0)


@pytest.mark.parametrize("machine", [m for m in MACHINES if "n_jobs" in m.names], ids=str)
def test_the_number_of_jobs_changes_nothing(machine):
    values = []
    for n_jobs in (None, 2):
        with warnings.catch_warnings(action="ignore"):
            model = build(machine).set_params(n_jobs=n_jobs).fit(X[:N], targets(machine)[:N])
        values.append(getattr(model, "decision_function", model.predict)(X[N:]))
    np.testing.assert_array_equal(*values)
