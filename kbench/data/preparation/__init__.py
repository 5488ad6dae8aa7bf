"""Prepare arrays of raw rows: targets, split, scaling, and the same steps for later rows.

`prepare` is the order of the steps, `prepared` what they leave. Locating and reading files is in
`sources` and `formats`; the process in which a run prepares its data is in
`kbench.run.execution.preparing`.
"""
