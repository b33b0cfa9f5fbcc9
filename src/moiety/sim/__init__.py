"""Pools in virtual time: replays traces of real clusters, and counts the results.

It owns the virtual clock, the readers of traces, the replay, and its results. All decisions in a
replay come from `policy`, unchanged. It never touches a GPU, an agent or the real time.
"""
