"""What a later call says against an earlier one, and targets whose scale or type is not said."""

import numpy as np
import pytest
from all_machines import build, machines
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_diabetes

from kbench.methods import KernelOneClassSVM, KernelQuantileRegressor, KernelSVC
from kbench.methods.exact.dual_regression import DualRegression
from kbench.metric import LearnedMetric, WithMetric

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
LABELS = np.where(X[:, 0] > 0, "a", "b")
MACHINES = list(machines())


@pytest.mark.parametrize(
    "machine",
    [m for m in MACHINES if hasattr(m.cls, "partial_fit") and is_classifier(build(m))],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:rank=:UserWarning")
def test_other_classes_on_a_later_chunk_are_refused(machine):
    model = build(machine)
    if "average" in machine.names:
        model.set_params(average=0)
    model.partial_fit(X, LABELS, classes=["a", "b"]).partial_fit(X, LABELS, classes=["b", "a"])
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, LABELS, classes=["q", "r"])


@pytest.mark.parametrize(
    "machine", [m for m in MACHINES if issubclass(m.cls, DualRegression)], ids=str
)
def test_a_tolerance_of_the_size_of_the_targets_is_said(machine, recwarn):
    y = np.sin(X[:, 0])
    said = "times the deviation of y"
    model = build(machine).set_params(tol=1e-3)
    assert not any(said in note for note in model.fit(X, y).notes_)
    assert not [w for w in recwarn if said in str(w.message)]
    with pytest.warns(UserWarning, match=said):
        small = clone(model).fit(X, 1e-3 * y)
    assert any(said in note for note in small.notes_)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (load_diabetes().target[:60], "regression"),
        (np.arange(60) % 3, "classification"),
        (np.arange(60) % 3.0, "classification"),
        (LABELS, "classification"),
        (X[:, 1], "regression"),
    ],
)
def test_the_task_of_a_metric_is_said(y, task):
    assert LearnedMetric(random_state=0, n_rounds=1).fit(X, y).task_ == task


def test_predictions_of_quantiles_have_the_form_of_the_fit():
    model = KernelQuantileRegressor(quantile=[0.1, 0.9]).fit(X, X[:, 0])
    assert model.set_params(quantile=0.5).predict(X).shape == (60, 2)
    assert KernelQuantileRegressor(quantile=0.1).fit(X, X[:, 0]).predict(X).shape == (60,)


def test_a_metric_before_a_model_without_scores_has_none():
    assert not hasattr(WithMetric(KernelOneClassSVM()), "score")
    assert hasattr(WithMetric(KernelSVC()), "score")


@pytest.mark.parametrize("machine", [m for m in MACHINES if is_classifier(build(m))], ids=str)
def test_labels_that_are_bytes_are_refused_with_a_remedy(machine):
    with pytest.raises(TypeError, match=r"bytes; numpy\.char\.decode"):
        build(machine).fit(X, LABELS.astype("S1"))


# Parameters whose first value sets attributes that a fit with the second value does not set.
FIRST_AND_SECOND = {
    "error_rows": (20, 0),
    "target_cost": (3000.0, None),
    "C": ([0.1, 1.0], 1.0),
    "features": ("nystrom", "fourier"),
    "warm_start": (True, False),
}


@pytest.mark.parametrize(
    ("machine", "name"),
    [(m, name) for m in MACHINES for name in FIRST_AND_SECOND if name in m.names],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_leaves_no_attribute_of_the_fit_before(machine, name):
    """The deviations of `HSSKernelRidge` came from the kernel matrix of the former rows."""
    first, second = FIRST_AND_SECOND[name]
    model, fresh = build(machine).set_params(**{name: first}), build(machine)
    try:
        model._validate_params()
    except ValueError:  # not a value of this class
        return
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = X[:, 0] if is_regressor(model) else (X[:, 0] > 0.0).astype(int)
    model.fit(X, y).set_params(**{name: second}).fit(X[:80], y[:80])
    assert set(vars(model)) == set(vars(fresh.set_params(**{name: second}).fit(X[:80], y[:80])))
