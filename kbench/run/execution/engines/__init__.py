"""Do runs on other machines: Dask, Ray and SLURM with a common state machine."""
