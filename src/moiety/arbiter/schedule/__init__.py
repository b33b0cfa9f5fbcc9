"""Which tenant holds a GPU next, and for how long: selection, preemption, transfers, quanta.

It owns the decisions of one round, and which tenants give up bytes (victims.py). It never
changes an account of bytes: the ledger does.
"""
