"""Starting workloads: the spec that the native programs read, and the records that they leave.

It owns the Python side of `native/supervisor`: how a spec is written, how `started` and `exit` are
read, and how the starter is called. It decides nothing, and never signals a workload's processes
itself: the supervisor does.
"""
