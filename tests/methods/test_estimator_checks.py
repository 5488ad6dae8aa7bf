"""scikit-learn's own checks of estimators."""

import inspect

import pytest
from all_machines import build, machines
from expected_failures import EXPECTED_FAILURES
from sklearn.base import BaseEstimator, is_classifier
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_param_validation, parametrize_with_checks

import kbench.approximation
import kbench.methods
import kbench.metric
from kbench.approximation import (
    BKA,
    Fastfood,
    LandmarkFeatures,
    RandomFeatures,
    RandomFourierFeatures,
    SpectralNystrom,
)
from kbench.methods import (
    DCSVC,
    ApproximateRidge,
    ApproximateRidgeClassifier,
    KernelRidge,
    KernelSVC,
    LinearizedSVC,
)

# IntelexSVC is scikit-learn's class; the joint net needs PyTorch (`test_conv_joint.py`), and xRFM
# its package.
CLASSES = [
    name
    for name in kbench.methods.__all__
    if name not in ("IntelexSVC", "JointConvolutionClassifier", "XRFMClassifier", "XRFMRegressor")
]
# Compositions and solvers that the defaults do not reach.
OTHERS = [
    DCSVC(combine="exact", partition="kernel_kmeans"),
    KernelSVC(probability=True),
    LinearizedSVC(LandmarkFeatures(20, landmarks="kmeans")),
    LinearizedSVC(Fastfood(128)),
    LinearizedSVC(RandomFourierFeatures(128)),
    KernelRidge(solver="pcg"),
    ApproximateRidge(SpectralNystrom(10, gamma=0.01), alpha=1e-4),
    ApproximateRidgeClassifier(SpectralNystrom(8)),
    ApproximateRidge(RandomFeatures(10, gamma=0.01), alpha=1e-4),
    ApproximateRidge(BKA(1)),
]
# Every class passes with its defaults. LDKL's take 73 s for all checks, half a second a fit, which
# the suite saves; boosting that is tuned takes its time budget.
_FEW_TREES = {"n_brackets": 0, "max_iter": 5, "time_budget": None}
SETTINGS = {
    "LDKLClassifier": {"max_iter": 300},
    "TunedBoostingClassifier": _FEW_TREES,
    "TunedBoostingRegressor": _FEW_TREES,
}
ESTIMATORS = [getattr(kbench.methods, name)(**SETTINGS.get(name, {})) for name in CLASSES] + OTHERS


@parametrize_with_checks(
    ESTIMATORS,
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* (is|are) more than ")
@pytest.mark.filterwarnings("ignore:the decision values of .* do not rise with the class")
def test_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("machine", [m for m in machines() if is_classifier(build(m))], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* is more than ")
def test_three_classes_are_told_apart_and_the_fit_is_described(machine):
    X, y = load_iris(return_X_y=True)
    model = build(machine).fit(X, y)
    assert model.score(X, y) > 0.7  # two classes are two thirds
    assert model.decision_function(X).shape == (150, 3)
    assert model.model_bytes_ > 0
    assert sum(model.timings_.values()) > 0.0


# Every public class with parameters, parts too, but for scikit-learn's own behind `IntelexSVC`.
WITH_PARAMETERS = [
    cls
    for module in (kbench.methods, kbench.approximation, kbench.metric)
    for name in module.__all__
    if inspect.isclass(cls := getattr(module, name)) and issubclass(cls, BaseEstimator)
    if hasattr(cls, "fit") and not inspect.isabstract(cls) and name != "IntelexSVC"
]


@pytest.mark.parametrize("cls", WITH_PARAMETERS, ids=lambda cls: cls.__name__)
def test_a_wrong_parameter_is_named_with_its_value(cls):
    """By every method that fits, for each parameter and each of its constraints."""
    estimator = cls(KernelSVC()) if cls is kbench.metric.WithMetric else cls()
    # A class may inherit constraints of parameters that it does not have.
    estimator._parameter_constraints = {
        name: cls._parameter_constraints[name] for name in estimator.get_params(deep=False)
    }
    check_param_validation(cls.__name__, estimator)
