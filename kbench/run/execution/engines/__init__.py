"""What runs a plan on other machines: Dask, Ray and SLURM behind one state machine."""
