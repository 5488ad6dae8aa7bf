"""Do a list of runs: runner, fork server, guard, worker, clusters, clocks, progress.

`runner` is the process of the command, `guard` and `worker` are those of a run, and `engines`
starts runs on other machines. `planning` decides which runs there are, and `results` defines their
rows.
"""
