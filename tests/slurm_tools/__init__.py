"""Tools that people use with Slurm, unmodified, on a pool: submitit, dask-jobqueue, Snakemake.

`make test-slurm-tools` puts them into a cache and runs these tests; where they cannot be had, the
tests say so and are skipped.
"""
