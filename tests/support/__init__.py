"""What our own tests and benchmarks need beyond `moiety.testing`; it is no part of the wheel.

It owns the simulated tenants, the virtual agent, the fake ends of the wire, the faults and the
probes. It never ships: `moiety.testing` has what users of moiety test with.
"""
