"""Which tasks yield for which: victims, reclaim, trials, and moves that defragment.

It owns the choice of victims and the rights to preempt. It never ends a task itself.
"""
