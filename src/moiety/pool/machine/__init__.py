"""The pool of all users of a machine: its account, its folders, its cgroups, and its root part.

It owns how root brings such a pool up and down. It never serves requests, and decides nothing.
"""
