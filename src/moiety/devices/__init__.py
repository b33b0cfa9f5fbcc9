"""GPUs as the machine reports them: which there are, how full they are, who uses them.

It owns the seam `Devices` with one real implementation (NVML), and how much of a card may be
shared out. It never changes anything on a GPU; `moiety.testing.fakes` has the stand-in.
"""
