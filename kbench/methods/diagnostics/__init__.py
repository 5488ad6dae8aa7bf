"""Diagnostics: they measure a quantity of a paper's figure instead of predicting well.

Bounds of a division, support vectors over time, spectra of kernel matrices and of their blocks.
"""
