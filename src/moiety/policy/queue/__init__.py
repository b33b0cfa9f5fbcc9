"""What each queue is entitled to: fair share, current usage, decayed usage, and deficit.

It owns the arithmetic of quotas, limits and weights. It never starts or stops a task.
"""
