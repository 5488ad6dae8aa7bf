"""Plan runs, do them in guarded workers, and store their rows.

`planning` makes the runs of a command, `execution` does them, `results` keeps their rows, `search`
chooses parameters by runs. The words of the command line are in `kbench.commands`, arrays in
`kbench.data`, tables of rows in `kbench.report`. No method is known here by name.
"""
