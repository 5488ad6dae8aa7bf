"""Estimators that solve their kernel problem exactly: support vector machines, kernel ridge.

`KernelSVC`, `KernelSVR`, `KernelNuSVC`, `KernelNuSVR` and `KernelOneClassSVM` replace
scikit-learn's SVC, SVR, NuSVC, NuSVR and OneClassSVM, and `KernelQuantileRegressor` solves the dual
of KernelSVR with other bounds; the solvers themselves are in `kbench.solvers`. Estimators that
divide, approximate or sample the problem have folders of their own.
"""
