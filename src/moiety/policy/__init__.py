"""What should happen in a pool of GPUs: which task runs where, and why others cannot run.

It owns the types of a snapshot (nodes, queues, workloads), the types of decisions, and the rules of
placement, as pure functions on arrays: the same snapshot gives the same decisions. It never reads a
clock, a socket or a file: time and seeds are arguments.
"""
