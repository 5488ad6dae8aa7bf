"""Kernel machines as scikit-learn estimators, one idea a module.

Importing this package is light: an estimator's module is loaded when its name is first used.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "BKAClassifier": "kbench.methods.bka_ridge",
    "BKARegressor": "kbench.methods.bka_ridge",
    "DCKernelRidge": "kbench.methods.dc_kernel_ridge",
    "DCKernelRidgeClassifier": "kbench.methods.dc_kernel_ridge",
    "DCSVC": "kbench.methods.dc_svc",
    "FalkonClassifier": "kbench.methods.falkon",
    "FalkonRegressor": "kbench.methods.falkon",
    "FastfoodSVC": "kbench.methods.fastfood_svm",
    "KernelRidge": "kbench.methods.kernel_ridge",
    "KernelRidgeClassifier": "kbench.methods.kernel_ridge",
    "KernelSVC": "kbench.methods.kernel_svc",
    "LLSVM": "kbench.methods.llsvm",
    "LTPU": "kbench.methods.ltpu",
    "MEKAClassifier": "kbench.methods.meka_ridge",
    "MEKARegressor": "kbench.methods.meka_ridge",
    "NystromClassifier": "kbench.methods.nystrom_ridge",
    "NystromRegressor": "kbench.methods.nystrom_ridge",
    "RandomFeatureClassifier": "kbench.methods.random_feature_ridge",
    "RandomFeatureRegressor": "kbench.methods.random_feature_ridge",
    "RandomFourierSVC": "kbench.methods.rks_svm",
    "SparsePrimalSVC": "kbench.methods.spsvm",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
