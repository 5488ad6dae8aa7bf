"""Make a list of runs from a command line: requests, grids, keys, the registry of methods.

Nothing here runs a method. Configs are composed in `kbench.config`; the runs are done in
`execution`, and rows of earlier ones are in `results`.
"""
