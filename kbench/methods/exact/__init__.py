"""Estimators that solve their kernel problem exactly: support vector machines, kernel ridge.

`KernelSVC` and `KernelSVR` take the place of scikit-learn's SVC and SVR; the solvers themselves are
in `kbench.solvers`. Estimators that divide, approximate or sample the problem have folders of
their own.
"""
