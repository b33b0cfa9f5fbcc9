"""The side of the agent that speaks with the shim inside programs.

It owns sessions, the handlers of messages and imported memory. It never decides about a lease.
"""
