"""The side of the agent that commands speak with.

It owns the control socket, its protocol, workloads, shares, reports and metrics.
It never writes a lease word.
"""
