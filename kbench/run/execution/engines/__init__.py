"""What runs a plan on other machines: Dask, Ray and SLURM behind one interface and one state machine."""
