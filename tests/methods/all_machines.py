"""Every estimator of kbench on small sizes, with each of the parts that its methods give it."""

import functools
import inspect
from typing import Any, NamedTuple

from sklearn.base import clone

import kbench.methods
import kbench.metric
from kbench.approximation import (
    BKA,
    MEKA,
    Fastfood,
    LandmarkFeatures,
    RandomFeatures,
    RandomFourierFeatures,
    SpectralNystrom,
)
from kbench.methods import KernelRidge, KernelSVC

# Small sizes, so that a fit takes milliseconds; the other parameters are the defaults.
SIZES = {
    "n_clusters": 2,
    "n_parts": 2,
    "n_leaves": 2,
    "n_landmarks": 8,
    "n_components": 20,
    "n_estimators": 2,
    "leaf_size": 16,
    "block_size": 20,
    "depth": 1,
    "min_rows": 5,
}
# The defaults are scikit-learn's: a linear kernel without intercept is worse than the mean.
_SELF_SCALED = {"kernel": "rbf", "gamma": "scale", "alpha": "loo"}
SPECIFIC: dict[str, dict] = {
    "KernelRidge": _SELF_SCALED,
    "LDKLClassifier": {"max_iter": 300},
    "PegasosClassifier": {"batch_size": 10, "n_epochs": 50, "n_components": 100},
    "ReducedSetSVC": {"n_components": 3, "n_restarts": 1, "preimage": "fixed_point"},
    "NORMA": {"batch_size": 10, "n_epochs": 3},
    "DoublySGDClassifier": {"block_size": 128},
    "DoublySGDRegressor": {"block_size": 128},
    "RACQPClassifier": {"max_iter": 200},
    "SubsampleSVC": {"n_samples": 0.9},
    "SDCAClassifier": {"max_iter": 50},
    "BaggingSVC": {"n_estimators": 1},
    "ASkotchClassifier": {"block_size": None, "rank": 20, "max_iter": 40},
    "ASkotchRegressor": {"block_size": 64, "rank": 20, "max_iter": 40},
    "EigenProClassifier": {"max_iter": 60},
    "EigenProRegressor": {"max_iter": 60},
    "SDDClassifier": {"max_iter": 100},
    "SDDRegressor": {"max_iter": 100},
    # The search for a metric is that of TunedKernelRidge, and takes half of the seconds.
    "TunedKernelSVC": {"metric": None},
    "TunedKernelSVR": {"metric": None},
}
# They need extras, or are scikit-learn's trees.
SKIPPED = {
    "IntelexSVC",
    "JointConvolutionClassifier",
    "TunedBoostingClassifier",
    "TunedBoostingRegressor",
    "XRFMClassifier",
    "XRFMRegressor",
}
DIAGNOSTICS = {"SupportCurves", "DivisionBound", "BlockSpectra", "KernelSpectrum"}


# Parts that the methods of configs/method give to these classes, beside the class's own default.
PARTS: dict[str, list] = {
    "LinearizedSVC": [RandomFourierFeatures(20), Fastfood(20), LandmarkFeatures(8)],
    # The two classes share their base: each part is that of one of them.
    "ApproximateRidge": [SpectralNystrom(8), RandomFeatures(8, features="fastfood"), BKA(1)],
    "ApproximateRidgeClassifier": [
        MEKA(8, n_clusters=1),
        SpectralNystrom(8, landmarks="kmeans"),
        RandomFeatures(8),
    ],
    "WithMetric": [KernelSVC(C=8.0), KernelRidge(**_SELF_SCALED)],
}
PART_NAMES = ("feature_map", "approximation", "estimator")


@functools.cache
def parameters_of(cls):
    return inspect.signature(cls.__init__).parameters


class Machine(NamedTuple):
    """A class with its part, which is given to the constructor by its name."""

    cls: type
    part: Any = None

    @property
    def names(self):
        return parameters_of(self.cls)

    def __str__(self):
        return self.cls.__name__ + ("" if self.part is None else f"-{self.part}")


def machines():
    for module in (kbench.methods, kbench.metric):
        for name in sorted(module.__all__):
            cls = getattr(module, name)
            if name in SKIPPED | DIAGNOSTICS or not hasattr(cls, "predict"):
                continue
            if name != "WithMetric":
                yield Machine(cls)
            yield from (Machine(cls, part) for part in PARTS.get(name, ()))


def build(machine):
    parameters = {name: value for name, value in SIZES.items() if name in machine.names}
    parameters |= SPECIFIC.get(machine.cls.__name__, {})
    if machine.part is not None:
        key = next(name for name in PART_NAMES if name in machine.names)
        parameters |= {key: clone(machine.part)}
    parameters |= {"random_state": 0} if "random_state" in machine.names else {}
    return machine.cls(**{k: v for k, v in parameters.items() if k in machine.names})
