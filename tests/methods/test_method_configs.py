"""configs/method/*.yaml of the machines of this package: keys are the constructor's parameters."""

import inspect
from pathlib import Path

import pytest
import yaml
from sklearn.base import RegressorMixin

from kbench.methods import (
    DCSVC,
    LLSVM,
    LTPU,
    NORMA,
    DoublySGDClassifier,
    DoublySGDRegressor,
    FastfoodSVC,
    KernelSDCA,
    KernelSVC,
    PegasosClassifier,
    RandomFourierSVC,
    SDCAClassifier,
    SparsePrimalSVC,
)

CONFIGS = Path(__file__).parents[2] / "configs" / "method"


METHODS = {
    "kernel_svc": KernelSVC,
    "dcsvm_early": DCSVC,
    "llsvm": LLSVM,
    "fastfood_svm": FastfoodSVC,
    "rks_svm": RandomFourierSVC,
    "spsvm": SparsePrimalSVC,
    "ltpu": LTPU,
    "doubly_sgd": DoublySGDClassifier,
    "doubly_sgd_regressor": DoublySGDRegressor,
    "norma": NORMA,
    "k_sdca": KernelSDCA,
    "r_pegasos": PegasosClassifier,
    "n_pegasos": PegasosClassifier,
    "r_sdca": SDCAClassifier,
    "n_sdca": SDCAClassifier,
}


@pytest.mark.parametrize(("name", "cls"), METHODS.items())
def test_keys_and_defaults_are_the_constructors(name, cls):
    config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert config.pop("name") == name
    assert config.pop("estimator") == name
    tasks = {"regression"} if issubclass(cls, RegressorMixin) else {"binary", "multiclass"}
    assert set(config.pop("meta")["tasks"]) == tasks
    parameters = {
        key: parameter.default
        for key, parameter in inspect.signature(cls).parameters.items()
        if key != "random_state"
    }
    assert config.keys() == parameters.keys()
    features = {"r": "fourier", "n": "nystrom"}
    for key, value in config.items():
        if key == "features":
            assert value == features[name[0]]
        elif not str(value).startswith("${"):
            assert value == parameters[key], key
