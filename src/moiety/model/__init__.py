"""The basic types: units, shares, gangs and errors.

It owns the frozen types and the error tree that all other packages use. It imports no other package
of moiety, decides nothing, and never touches a clock, a socket or a file.
"""
