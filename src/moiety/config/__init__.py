"""Settings: what can be set, where it may stand, and which of several places counts.

It owns the one table of settings and the files they stand in. It never acts on a setting: the code
that reads one knows what it means.
"""
