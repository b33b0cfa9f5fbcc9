"""What real programs ask of the driver: traces that were recorded, and the replay of them.

It owns the form of a trace, how a recording becomes one, and how one is done again. It needs a
driver and nothing of moiety's: the same replay runs alone, under moiety, and beside others.
"""
