"""What the arbiter remembers of a tenant.

It owns the records. It never decides anything.
"""
