"""The daemon on a node: it owns the GPUs and carries out what the arbiter says.

It owns the agent's directory, the sockets in it, the lease pages and the lives of processes; it
decides nothing about leases or memory, and never touches a GPU except to read NVML.
"""
