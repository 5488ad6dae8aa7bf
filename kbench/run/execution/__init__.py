"""From a list of runs to rows: runner, fork server, guard, worker, clusters, clocks, progress."""
