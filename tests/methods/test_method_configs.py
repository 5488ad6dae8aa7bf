"""configs/method/*.yaml of the machines of this package: keys are the constructor's parameters."""

import inspect
from pathlib import Path

import pytest
import yaml

import kbench.methods
from kbench.methods import (
    BKAClassifier,
    BKARegressor,
    DCKernelRidge,
    DCKernelRidgeClassifier,
    FalkonClassifier,
    FalkonRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    MEKAClassifier,
    MEKARegressor,
    NystromClassifier,
    NystromRegressor,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
)
from kbench.run import registry

CONFIGS = Path(__file__).parents[2] / "configs" / "method"

# Names that stand for a class with other parameters than its defaults.
SETTINGS = {
    "n_pegasos": {"features": "nystrom"},
    "n_sdca": {"features": "nystrom"},
    "kernel_svc": {"fit_intercept": False},  # the papers' problem; a user of SVC expects SVC's
    "division_bound": {"n_clusters": [8, 16, 32, 64, 128]},
    "dcsvm": {
        "n_clusters": 4,
        "n_levels": 4,
        "combine": "exact",
        "partition": "kernel_kmeans",
        "level_tol": 0.1,
    },
    "dcsvm_early": {"tol": 0.1},
    "bka_svm": {"n_levels": 1},
    "conv_fixed": {
        "kernel": "convolution",
        "block_size": 1568,
        "max_blocks": 1,
        "n_epochs": 5,
        "gamma": 1.0,
        "step_size": 3.0,
        "unit_norm": True,
    },
}
TASKS = {
    "doubly_sgd_regressor": {"regression"},
    "dcpred_krr": {"regression"},
    "dcpred_trained_regressor": {"regression"},
    "hss_krr": {"regression"},
    "kernel_svr": {"regression"},
    "division_bound": {"binary"},
    "support_curves": {"binary"},
    "kernel_spectrum": {"binary"},
}
METHODS = {
    "kernel_svc": "KernelSVC",
    "dcsvm_early": "DCSVC",
    "dcsvm": "DCSVC",
    "bka_svm": "DCSVC",
    "cascade_svm": "CascadeSVC",
    "lasvm": "LaSVC",
    "subsample_svc": "SubsampleSVC",
    "bagging_svc": "BaggingSVC",
    "kernel_svr": "KernelSVR",
    "division_bound": "DivisionBound",
    "support_curves": "SupportCurves",
    "block_spectra": "BlockSpectra",
    "kernel_spectrum": "KernelSpectrum",
    "llsvm": "LLSVM",
    "fastfood_svm": "FastfoodSVC",
    "rks_svm": "RandomFourierSVC",
    "spsvm": "SparsePrimalSVC",
    "ltpu": "LTPU",
    "doubly_sgd": "DoublySGDClassifier",
    "doubly_sgd_regressor": "DoublySGDRegressor",
    "conv_fixed": "DoublySGDClassifier",
    "norma": "NORMA",
    "k_sdca": "KernelSDCA",
    "r_pegasos": "PegasosClassifier",
    "n_pegasos": "PegasosClassifier",
    "r_sdca": "SDCAClassifier",
    "n_sdca": "SDCAClassifier",
    "dcpred": "DCPredClassifier",
    "dcpred_krr": "DCPredRegressor",
    "dcpred_trained": "DCPredTrainedClassifier",
    "dcpred_trained_regressor": "DCPredTrainedRegressor",
    "ldkl": "LDKLClassifier",
    "aesvm": "AESVC",
    "reduced_set": "ReducedSetSVC",
    "hss_admm": "HSSADMMClassifier",
    "hss_krr": "HSSKernelRidge",
    "racqp": "RACQPClassifier",
}


@pytest.mark.parametrize("name", METHODS)
def test_keys_and_defaults_are_the_constructors(name):
    config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert config.pop("name") == name
    assert config.pop("estimator") == name
    assert set(config.pop("meta")["tasks"]) == TASKS.get(name, {"binary", "multiclass"})
    parameters = {
        key: parameter.default
        for key, parameter in inspect.signature(
            getattr(kbench.methods, METHODS[name])
        ).parameters.items()
        if key != "random_state"
    }
    assert config.keys() == parameters.keys()
    expected = parameters | SETTINGS.get(name, {})
    for key, value in config.items():
        if not str(value).startswith("${"):
            assert value == expected[key], key


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
