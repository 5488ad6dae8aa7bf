"""Wrappers of estimators of other packages, which need an extra (`pip install kbench[...]`).

A wrapper exists only where the package's own class does not keep scikit-learn's interface; classes
that keep it are named by a YAML file alone. Rivals that kbench tunes itself are in `automatic`.
"""
