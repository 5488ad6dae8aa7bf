"""Figures of the papers: panels and lines that are read from rows, and their charts.

Axes and marks are those of `kbench.report.charts`; tables are in `cells`.
"""
