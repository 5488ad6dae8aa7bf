"""Do runs on other machines: Dask, Ray and SLURM with a common state machine.

`states` is the machine, `daemons` and `slurm` report to it, `on_node` does a run there. The
runner's side of a cluster is `kbench.run.execution.cluster`, a fit that spreads over Dask
`kbench.run.execution.dask_fit`.
"""
