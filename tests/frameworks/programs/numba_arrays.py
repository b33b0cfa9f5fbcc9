"""Numba without kernels: arrays that go to the GPU in a stream and come back, pinned or not.

usage: numba_arrays.py MIB      SIGUSR1: enough
"""

from __future__ import annotations

import signal
import sys

import numpy as np
from numba import cuda  # type: ignore[import-not-found, import-untyped, unused-ignore]

MIB = 1 << 20
PIECES = 6


def main() -> int:
    """Copy until told."""
    enough: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: enough.append(1))
    words = int(sys.argv[1]) * MIB // 8 // PIECES
    stream, event = cuda.stream(), cuda.event()
    held = [cuda.to_device(np.arange(words) * n) for n in range(PIECES)]
    pinned = cuda.pinned_array(words, dtype=np.int64)
    print("ready", flush=True)
    rounds = wrong = 0
    while not enough or rounds < 10:
        at = rounds % PIECES
        key = at + rounds // PIECES * PIECES
        wrong += int((held[at].copy_to_host() != np.arange(words) * key).sum())
        pinned[:] = np.arange(words) * (key + PIECES)
        held[at].copy_to_device(pinned, stream=stream)
        event.record(stream)
        event.synchronize()
        if rounds % 5 == 0:  # let it go, and take another
            fresh = cuda.device_array(words, dtype=np.int64)
            fresh.copy_to_device(held[at])
            held[at] = fresh
        rounds += 1
    print(f"{wrong} words wrong")
    print(f"{rounds} rounds", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
