"""Starts workloads: a share of the agent, a supervisor, and what it writes down.

It owns the contract with `moiety-supervisor`: its call, its specification, and the files in a
workload's folder. It never decides what starts, and opens no path that a user named.
"""
