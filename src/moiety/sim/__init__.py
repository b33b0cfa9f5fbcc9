"""Pools in virtual time: traces of real clusters are replayed, and what came of it is counted.

It owns the virtual clock, the readers of traces, the replay, and its results. What is decided in a
replay comes from `policy`, unchanged. It never touches a GPU, an agent or the real time.
"""
