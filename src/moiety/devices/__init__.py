"""GPUs as the machine reports them: their properties, their use, and their processes.

It owns the interface `Devices` with one real implementation (NVML), and the capacity of a card. It
never changes anything on a GPU; `moiety.testing.fakes` has the stand-in.
"""
