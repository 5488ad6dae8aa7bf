"""From a command line to a list of runs: requests, grids, keys, the registry of methods."""
