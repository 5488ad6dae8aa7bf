"""Wrappers of estimators of other packages, which need an extra (`pip install kbench[...]`).

A wrapper exists only where the package's own class does not keep scikit-learn's interface.
"""
