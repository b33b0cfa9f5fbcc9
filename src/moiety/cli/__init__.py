"""The commands: one module each, imported when it is asked for.

It owns the output for people and, with `-o json`, for programs. It decides nothing: checks of a
program before it starts are here, everything about GPUs is the agent's.
"""
