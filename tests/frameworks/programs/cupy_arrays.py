"""CuPy without kernels: arrays whose words can be foretold come, are copied and go, until told.

usage: cupy_arrays.py MIB SEED [async]    SIGUSR1: enough; it looks at all of them and ends
async: memory from the driver's pool (cudaMallocAsync) instead of CuPy's own

CuPy compiles whatever computes, so all values come from copies.
"""

from __future__ import annotations

import random
import signal
import sys
import warnings

import cupy  # type: ignore[import-not-found, unused-ignore]
import numpy as np

MIB = 1 << 20
SIZES = [4096, 96 << 10, 1 * MIB, 3 * MIB, 12 * MIB]
"""of arrays, bytes"""


def pattern(words: int, key: int) -> np.ndarray:
    """What an array holds."""
    return np.arange(words, dtype=np.int64) * 6364136223846793005 + key


class Arrays:
    """Arrays on the GPU, each with the key of its pattern."""

    def __init__(self, total: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
        self.events = [cupy.cuda.Event(disable_timing=True) for _ in range(2)]
        words = max(SIZES) // 8
        self.pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(words * 8), np.int64, words)
        self.wrong = 0
        self.held: list[tuple[cupy.ndarray, int]] = []
        taken = 0
        while taken < total:
            size = min(self.random.choice(SIZES), max(total - taken, 4096))
            self.held.append(self.new(size // 8))
            taken += size

    def write(self, array: cupy.ndarray) -> int:
        """Give it another pattern, out of pinned memory or not: its key."""
        key = self.random.getrandbits(62)
        host = pattern(array.size, key)
        if self.random.random() < 0.5:
            self.pinned[: array.size] = host
            stream = self.random.choice(self.streams)
            array.set(self.pinned[: array.size], stream=stream)
            stream.synchronize()
        else:
            array.set(host)
        return key

    def new(self, words: int) -> tuple[cupy.ndarray, int]:
        """An array that came from the host."""
        if self.random.random() < 0.5:
            key = self.random.getrandbits(62)
            return cupy.asarray(pattern(words, key)), key
        array = cupy.empty(words, dtype=np.int64)
        return array, self.write(array)

    def check(self, at: int) -> None:
        """Read an array back."""
        array, key = self.held[at]
        self.wrong += int((cupy.asnumpy(array) != pattern(array.size, key)).sum())

    def step(self) -> None:
        """One of the things that programs do."""
        at = self.random.randrange(len(self.held))
        array, _ = self.held[at]
        match self.random.randrange(5):
            case 0:  # free it, and take another; now and then all that the pool keeps
                words = array.size
                self.held[at] = (None, 0)
                del array
                if self.random.random() < 0.2:
                    cupy.get_default_memory_pool().free_all_blocks()
                self.held[at] = self.new(words)
            case 1:
                self.held[at] = (array, self.write(array))
            case 2:  # copy it on the GPU, through the memory of another stream and back
                there, back = self.streams
                gone, come = self.events
                copied = cupy.empty_like(array)
                copied.data.copy_from_device_async(array.data, array.nbytes, there)
                gone.record(there)
                back.wait_event(gone)
                array.data.memset_async(0, array.nbytes, back)
                array.data.copy_from_device_async(copied.data, array.nbytes, back)
                come.record(back)
                come.synchronize()
            case _:
                self.check(at)


def main() -> int:
    """Go on until told."""
    enough: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: enough.append(1))
    if "async" in sys.argv[3:]:
        warnings.simplefilter("ignore", FutureWarning)
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    arrays = Arrays(int(sys.argv[1]) * MIB, int(sys.argv[2]))
    print("ready", flush=True)
    steps = 0
    while not enough or steps < 10:
        arrays.step()
        steps += 1
    for at in range(len(arrays.held)):
        arrays.check(at)
    print(f"{arrays.wrong} words wrong")
    print(f"{steps} steps", file=sys.stderr)
    return 1 if arrays.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
