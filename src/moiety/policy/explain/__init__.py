"""Why a workload waits, until when, and what would have to change.

It owns the sentences of refusals and explanations. It never changes a decision.
"""
