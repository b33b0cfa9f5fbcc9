"""How long work runs: from what is declared, and from similar work that ended.

It owns every estimate of a run time. It never orders work by it.
"""
