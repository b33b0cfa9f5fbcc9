"""Where a task goes: the nodes as arrays, the rules of placement, and the GPUs within a node.

It owns the score of every place and the refusal when there is none. It never looks at queues.
"""
