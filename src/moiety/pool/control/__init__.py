"""The loop of the pool: look at the machine, let the engine decide, carry it out.

It owns running workloads and every change of a workload's state after its submission. It never
orders work and never chooses a GPU.
"""
