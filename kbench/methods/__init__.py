"""Kernel machines as scikit-learn estimators, one idea a module.

Importing this package is light: an estimator's module is loaded when its name is first used.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "DCSVC": "kbench.methods.dc_svc",
    "DoublySGDClassifier": "kbench.methods.doubly_sgd",
    "DoublySGDRegressor": "kbench.methods.doubly_sgd",
    "FastfoodSVC": "kbench.methods.fastfood_svm",
    "KernelSDCA": "kbench.methods.k_sdca",
    "KernelSVC": "kbench.methods.kernel_svc",
    "LLSVM": "kbench.methods.llsvm",
    "LTPU": "kbench.methods.ltpu",
    "NORMA": "kbench.methods.norma",
    "PegasosClassifier": "kbench.methods.pegasos",
    "RandomFourierSVC": "kbench.methods.rks_svm",
    "SDCAClassifier": "kbench.methods.sdca",
    "SparsePrimalSVC": "kbench.methods.spsvm",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
