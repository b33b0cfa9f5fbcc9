"""What the agent needs of the operating system: paths, permissions, users, processes, logs, locks.

It owns every such detail. It knows nothing of GPUs, leases or programs that share them.
"""
