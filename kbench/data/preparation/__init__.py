"""Prepare arrays of raw rows: targets, split, scaling, and the same steps for later rows.

`prepare` does the steps in order, `prepared` writes and opens the arrays. Locating and reading
files is in `sources` and `formats`; the process in which a run prepares its data is in
`kbench.run.execution.preparing`.
"""
