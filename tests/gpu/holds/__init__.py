"""What must hold on a real GPU: the checks that `check.py` runs, each on a node of its own.

It owns the checks and how one is set up. It never takes more of a card than the agent's capacity
and the contexts of a few programs: what does not fit is memory under moiety, not on the card.
"""
