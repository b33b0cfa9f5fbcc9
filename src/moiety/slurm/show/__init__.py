"""How Slurm's programs ask: `squeue`, `sacct`, `sinfo`, `scontrol` and `scancel`.

It owns their options, their columns, and which of Slurm's states and reasons a workload has. It
changes nothing itself: what is asked for is a request to the pool. It never imports anything slow.
"""
