"""What tests are made of: clocks that stand still, GPUs on paper, processes that play a part.

It is public: whoever builds on moiety tests with the same pieces. Nothing outside of tests imports
it.
"""
