"""The pool's HTTP API on a Unix socket: routes, rights, and who asks.

It owns the routes and what each user may see and do. It never decides what runs, and changes a
workload only through the loop and the store.
"""
