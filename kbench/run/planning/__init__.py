"""Make a list of runs from a command line: requests, grids, keys, the registry of methods."""
