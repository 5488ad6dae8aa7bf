"""Kernel machines as scikit-learn estimators, in a room for each family of methods.

Rooms import only rooms below: automatic and diagnostics; stochastic, divide, fast_prediction, hss
and external; approximate; exact; out_of_core; base (`make lint` checks it). Optimisation that knows
no estimator is in `kbench.solvers`.

Importing this package is light: an estimator's module is loaded when its name is first used.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "AESVC": "kbench.methods.approximate.aesvm",
    "ASkotchClassifier": "kbench.methods.stochastic.askotch",
    "ASkotchRegressor": "kbench.methods.stochastic.askotch",
    "ApproximateRidge": "kbench.methods.approximate.approximate_ridge",
    "ApproximateRidgeClassifier": "kbench.methods.approximate.approximate_ridge",
    "BaggingSVC": "kbench.methods.divide.bagging_svc",
    "BlockSpectra": "kbench.methods.diagnostics.block_spectra",
    "CascadeSVC": "kbench.methods.divide.cascade_svc",
    "DCKernelRidge": "kbench.methods.divide.dc_kernel_ridge",
    "DCKernelRidgeClassifier": "kbench.methods.divide.dc_kernel_ridge",
    "DCPredClassifier": "kbench.methods.fast_prediction.dc_pred",
    "DCPredRegressor": "kbench.methods.fast_prediction.dc_pred",
    "DCPredTrainedClassifier": "kbench.methods.fast_prediction.dcpred_trained",
    "DCPredTrainedRegressor": "kbench.methods.fast_prediction.dcpred_trained_regressor",
    "DCSVC": "kbench.methods.divide.dc_svc",
    "DivisionBound": "kbench.methods.diagnostics.division_bound",
    "DoublySGDClassifier": "kbench.methods.stochastic.doubly_sgd",
    "DoublySGDRegressor": "kbench.methods.stochastic.doubly_sgd",
    "EigenPro3Classifier": "kbench.methods.stochastic.eigenpro3",
    "EigenPro3Regressor": "kbench.methods.stochastic.eigenpro3",
    "EigenProClassifier": "kbench.methods.stochastic.eigenpro",
    "EigenProRegressor": "kbench.methods.stochastic.eigenpro",
    "FalkonClassifier": "kbench.methods.approximate.falkon",
    "FalkonRegressor": "kbench.methods.approximate.falkon",
    "HSSADMMClassifier": "kbench.methods.hss.hss_admm",
    "HSSKernelRidge": "kbench.methods.hss.hss_krr",
    "KernelRidge": "kbench.methods.exact.kernel_ridge",
    "KernelRidgeClassifier": "kbench.methods.exact.kernel_ridge",
    "KernelNuSVC": "kbench.methods.exact.kernel_nu_svc",
    "KernelNuSVR": "kbench.methods.exact.kernel_nu_svr",
    "KernelOneClassSVM": "kbench.methods.exact.kernel_one_class",
    "KernelQuantileRegressor": "kbench.methods.exact.kernel_quantile",
    "KernelSDCA": "kbench.methods.stochastic.k_sdca",
    "KernelSVC": "kbench.methods.exact.kernel_svc",
    "KernelSpectrum": "kbench.methods.diagnostics.kernel_spectrum",
    "KernelSVR": "kbench.methods.exact.kernel_svr",
    "IntelexSVC": "kbench.methods.external.intelex",
    "JointConvolutionClassifier": "kbench.methods.stochastic.conv_joint",
    "LDKLClassifier": "kbench.methods.fast_prediction.ldkl",
    "LaSVC": "kbench.methods.stochastic.la_svc",
    "LinearizedSVC": "kbench.methods.approximate.linearized_svc",
    "NORMA": "kbench.methods.stochastic.norma",
    "PegasosClassifier": "kbench.methods.stochastic.pegasos",
    "RecursiveFeatureClassifier": "kbench.methods.automatic.rfm",
    "RecursiveFeatureRegressor": "kbench.methods.automatic.rfm",
    "RACQPClassifier": "kbench.methods.hss.racqp",
    "ReducedSetSVC": "kbench.methods.fast_prediction.reduced_set",
    "SDCAClassifier": "kbench.methods.stochastic.sdca",
    "SDDClassifier": "kbench.methods.stochastic.stochastic_dual",
    "SDDRegressor": "kbench.methods.stochastic.stochastic_dual",
    "SparsePrimalSVC": "kbench.methods.approximate.spsvm",
    "SubsampleSVC": "kbench.methods.divide.subsample_svc",
    "SupportCurves": "kbench.methods.diagnostics.support_curves",
    "TunedBoostingClassifier": "kbench.methods.automatic.tuned_boosting",
    "TunedBoostingRegressor": "kbench.methods.automatic.tuned_boosting",
    "TunedKernelRidge": "kbench.methods.automatic.tuned_ridge",
    "TunedKernelSVC": "kbench.methods.automatic.tuned",
    "TunedKernelSVR": "kbench.methods.automatic.tuned",
    "XRFMClassifier": "kbench.methods.external.xrfm",
    "XRFMRegressor": "kbench.methods.external.xrfm",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
