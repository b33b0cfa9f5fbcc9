"""The pool on one machine: work waits in a queue, the engine decides, the agent shares.

It owns the store of submitted work, the loop that carries the engine's decisions out, and the API
on a Unix socket. It never orders work, counts a quota or chooses a GPU: `moiety.policy` does.
"""
