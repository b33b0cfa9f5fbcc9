"""What tests are made of: clocks that stand still, GPUs on paper, processes that play a part.

It owns the shipped stand-ins, for whoever builds on moiety as well. It never becomes part of a
running node: nothing outside of tests imports it.
"""
