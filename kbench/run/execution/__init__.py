"""Do a list of runs: runner, fork server, guard, worker, clusters, clocks, progress.

`runner` is the process of the command, `guard` and `worker` are those of a run, `engines` is what
runs them on other machines. Which runs there are is decided in `planning`; what a row is, in
`results`.
"""
