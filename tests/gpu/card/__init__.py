"""How a card and its driver behave, without moiety: what `facts.py` measures.

It owns a thin way to the driver, one module for each group of measurements, and the simgpu profile
that follows from them. It needs nothing but Python and NVIDIA's driver, and never imports moiety.
"""
