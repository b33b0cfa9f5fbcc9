"""Steps: the processes with ranks that `srun` starts inside a job, and jobs that wait for them.

It owns the ranks, their variables, output and signals, and what is kept of a step. It never
decides which GPUs a job has, and imports nothing slow.
"""
