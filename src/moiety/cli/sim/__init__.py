"""`moiety sim`: replays, capacity, scenarios and explanations.

It owns how results are printed. It never decides anything: the policy engine does.
"""
