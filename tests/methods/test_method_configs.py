"""configs/method/*.yaml of the machines of this package: keys are the constructor's parameters."""

import inspect
from pathlib import Path

import pytest
import yaml

from kbench.methods import (
    DCSVC,
    LLSVM,
    LTPU,
    BKAClassifier,
    BKARegressor,
    DCKernelRidge,
    DCKernelRidgeClassifier,
    FalkonClassifier,
    FalkonRegressor,
    FastfoodSVC,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    MEKAClassifier,
    MEKARegressor,
    NystromClassifier,
    NystromRegressor,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
    RandomFourierSVC,
    SparsePrimalSVC,
)
from kbench.run import registry

CONFIGS = Path(__file__).parents[2] / "configs" / "method"


METHODS = {
    "kernel_svc": KernelSVC,
    "dcsvm_early": DCSVC,
    "llsvm": LLSVM,
    "fastfood_svm": FastfoodSVC,
    "rks_svm": RandomFourierSVC,
    "spsvm": SparsePrimalSVC,
    "ltpu": LTPU,
}


# Both tasks: the regressor by the method's name, the classifier by its class. What follows are the
# parameters in which a method differs from the defaults of its class.
RIDGES = {
    "meka": (MEKARegressor, MEKAClassifier, set()),
    "meka_psd": (MEKARegressor, MEKAClassifier, {"landmarks", "link", "psd"}),
    "nystrom": (NystromRegressor, NystromClassifier, set()),
    "kmeans_nystrom": (NystromRegressor, NystromClassifier, {"landmarks"}),
    "randomized_nystrom": (NystromRegressor, NystromClassifier, {"eigensolver"}),
    "ensemble_nystrom": (NystromRegressor, NystromClassifier, {"n_experts"}),
    "svd": (NystromRegressor, NystromClassifier, {"n_landmarks", "eigensolver"}),
    "rks": (RandomFeatureRegressor, RandomFeatureClassifier, set()),
    "fastfood": (RandomFeatureRegressor, RandomFeatureClassifier, {"features"}),
    "bka": (BKARegressor, BKAClassifier, set()),
    "krr": (KernelRidge, KernelRidgeClassifier, set()),
    "dckrr": (DCKernelRidge, DCKernelRidgeClassifier, set()),
    "falkon": (FalkonRegressor, FalkonClassifier, set()),
}


@pytest.mark.parametrize(("name", "classes"), RIDGES.items())
def test_ridges_name_a_class_for_each_task(name, classes):
    regressor, classifier, differing = classes
    config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert config.pop("name") == name
    assert config.pop("meta")["tasks"] == ["regression", "binary", "multiclass"]
    targets = config.pop("estimator")
    for task in ("binary", "multiclass"):
        assert registry.load(registry.target(targets[task])) is classifier
    assert targets["regression"] == name
    assert registry.load(registry.target(name)) is regressor
    parameters = {
        key: parameter.default
        for key, parameter in inspect.signature(regressor).parameters.items()
        if key != "random_state"
    }
    assert config.keys() == parameters.keys()
    plain = {key for key, value in config.items() if not str(value).startswith("${")}
    assert {key for key in plain if config[key] != parameters[key]} == differing


@pytest.mark.parametrize(("name", "cls"), METHODS.items())
def test_keys_and_defaults_are_the_constructors(name, cls):
    config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert config.pop("name") == name
    assert config.pop("estimator") == name
    assert set(config.pop("meta")["tasks"]) == {"binary", "multiclass"}
    parameters = {
        key: parameter.default
        for key, parameter in inspect.signature(cls).parameters.items()
        if key != "random_state"
    }
    assert config.keys() == parameters.keys()
    for key, value in config.items():
        if not str(value).startswith("${"):
            assert value == parameters[key], key
