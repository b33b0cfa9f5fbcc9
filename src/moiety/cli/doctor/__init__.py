"""`moiety doctor`: checks of this machine, and the bundle for a bug report.

It owns the findings and their advice. It never changes anything on the machine.
"""
