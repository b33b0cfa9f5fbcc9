"""JAX without kernels: arrays that come from the host, stay a while, and are read when they go.

usage: jax_arrays.py MIB      SIGUSR1: enough; it reads all of them and ends

JAX compiles whatever computes, so all values come from copies.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys

import jax  # type: ignore[import-not-found, unused-ignore]
import numpy as np
from jax._src import hardware_utils  # type: ignore[import-not-found, unused-ignore]

MIB = 1 << 20
SIZES = [4096, 96 << 10, 1 * MIB, 3 * MIB]
"""of arrays, bytes"""


def pattern(words: int, key: int) -> np.ndarray:
    """What an array holds."""
    return np.arange(words, dtype=np.int32) * 747796405 + key


def put(words: int, key: int) -> jax.Array:
    """An array on the GPU; JAX keeps no copy of its own."""
    return jax.device_put(pattern(words, key)).block_until_ready()


def main() -> int:
    """Replace until told."""
    enough: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: enough.append(1))
    hardware_utils.has_visible_nvidia_gpu = lambda: True  # it looks for device files
    with contextlib.redirect_stdout(sys.stderr):  # where it says what it does not check
        jax.devices()
    choose = random.Random(1)
    held: list[tuple[jax.Array, int]] = []
    taken = 0
    while taken < int(sys.argv[1]) * MIB:
        size, key = choose.choice(SIZES), choose.getrandbits(30)
        held.append((put(size // 4, key), key))
        taken += size
    print("ready", flush=True)
    steps = wrong = 0
    while held:
        if enough and steps >= 10:
            array, key = held.pop()
            wrong += int((jax.device_get(array) != pattern(array.size, key)).sum())
            continue
        at = choose.randrange(len(held))
        array, key = held[at]
        wrong += int((jax.device_get(array) != pattern(array.size, key)).sum())
        array.delete()
        key = choose.getrandbits(30)
        held[at] = (put(array.size, key), key)
        steps += 1
    print(f"{wrong} words wrong")
    print(f"{steps} steps", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
