"""What should happen on the GPUs of one node: leases, residency, turns.

It owns every decision about who holds a GPU now and whose memory moves, as a pure step from events
to instructions. It never reads a clock, a socket or a file: the time is an argument.
"""
