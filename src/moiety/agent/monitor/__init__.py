"""What the agent observes of the GPUs: their processes, their usage, and driver errors.

It owns the measurements. It never decides what is done about them.
"""
