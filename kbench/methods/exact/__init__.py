"""Estimators that solve their kernel problem exactly: support vector machines, kernel ridge.

`KernelSVC`, `KernelSVR` and `KernelOneClassSVM` take the place of scikit-learn's SVC, SVR and
OneClassSVM, and `KernelQuantileRegressor` solves the same dual with other bounds; the solvers
themselves are in `kbench.solvers`. Estimators that divide, approximate or sample the problem have
folders of their own.
"""
