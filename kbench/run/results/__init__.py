"""Rows of runs and the folder that holds them: schema, files, merging, environment, scores.

Columns of a fitted estimator are measured in `execution`. What is shown of the rows is in
`kbench.report`.
"""
