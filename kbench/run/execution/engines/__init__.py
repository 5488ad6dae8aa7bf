"""Do runs on other machines: Dask, Ray and SLURM with a common state machine.

`states` is the state machine, `daemons` and `slurm` report to it, and `on_node` does a run on the
other machine. `kbench.run.execution.cluster` is the runner's side of a cluster, and
`kbench.run.execution.dask_fit` spreads one fit over the workers of Dask.
"""
