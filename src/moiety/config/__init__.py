"""Settings: what can be set, where it may stand, and which of several places counts.

It owns the one table of settings and the files they stand in. It never acts on a setting: what one
means is known to whoever asks for it.
"""
