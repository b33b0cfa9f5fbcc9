"""Slurm's words for the pool of one machine: `sbatch`, `srun`, `squeue` and the others.

It owns what Slurm's options, scripts, variables and columns mean here. It never orders work, and
reaches the pool only through its socket. Its programs import nothing that is slow to import.
"""
