"""How a job is submitted with Slurm's words: `sbatch`, its options, scripts and variables.

It owns how options and scripts are read, which are refused, and what becomes of them. It never
decides when a job runs, and imports nothing slow.
"""
