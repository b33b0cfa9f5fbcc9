"""The engine of the pool: `moiety.policy` in a process of its own.

It owns the translation of the store and the machine into a snapshot, and of decisions into starts
and ends. It never writes to the store, starts a program, or orders work by rules of its own.
"""
