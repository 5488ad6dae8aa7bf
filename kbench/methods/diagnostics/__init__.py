"""Diagnostics: they measure a quantity of a paper's figure instead of predicting well.

They measure bounds of a division, support vectors over time, spectra of kernel matrices and of
their blocks. They are estimators so that the runner can run them, and predict with an exact model.
Measures of runs that need no fit of their own belong to `kbench.report`.
"""
