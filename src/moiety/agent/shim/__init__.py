"""The side of the agent that speaks with the shim inside programs.

It owns connections, sessions, lease pages and imported memory. It never decides about a lease.
"""
