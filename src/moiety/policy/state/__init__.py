"""The cluster as it would be after the decisions so far, and the order of what waits.

It owns every change of that picture, and how to undo it. It never evaluates who is preempted.
"""
