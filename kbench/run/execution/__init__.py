"""Do a list of runs: runner, fork server, guard, worker, clusters, clocks, progress."""
