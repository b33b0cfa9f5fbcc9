"""The host arena: host memory for evicted data, made before it is needed.

It owns the segments and the plan for them. It never chooses which data leaves a GPU.
"""
