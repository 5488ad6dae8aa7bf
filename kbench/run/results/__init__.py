"""Rows of runs and the folder that holds them: schema, files, merging, environment, scores.

`execution` measures the columns of a fitted estimator. `kbench.report` shows the rows.
"""
