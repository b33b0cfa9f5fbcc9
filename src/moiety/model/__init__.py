"""What exists: units, and everything that can go wrong.

It owns the frozen types and the error tree that all other packages speak in. It imports nothing of
ours, decides nothing, and never touches a clock, a socket or a file.
"""
