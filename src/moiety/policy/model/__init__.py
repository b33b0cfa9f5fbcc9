"""The types of a pool: nodes, GPUs, queues, workloads, a snapshot, and the decisions.

It owns frozen records and the units in which they count. It never decides anything.
"""
