"""Where the GPUs' time went: the agent's records as a trace for a viewer, and in three lines.

It owns the form of the trace and the sums over it. It never writes a file, and changes nothing in
the agent: it only reads the agent's records, a page at a time.
"""
