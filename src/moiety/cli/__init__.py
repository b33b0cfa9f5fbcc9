"""The commands: one module each, imported when it is asked for.

It owns how things are said to a human or, with `-o json`, to a program. It decides nothing:
checks of a program before it starts are here, everything about GPUs is the agent's.
"""
