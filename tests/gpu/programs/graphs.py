"""Records a graph that changes its memory, replays it with pauses, and checks every word.

usage: graphs.py BYTES ROUNDS SEED
"""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.gpu.card.driver import MIB, Driver
from tests.gpu.card.links import LIBC

EVERY = 512
"""words: one in each page of 4 KiB is changed"""
NODES = 3
PIECE = 64 * MIB


def wrong_words(driver: Driver, at: int, size: int, seed: int, changed: int) -> int:
    """Of one piece: the changed words, then, with these set back, all others."""
    image = (ctypes.c_uint64 * (size // 8))()
    driver.call("cuMemcpyDtoH_v2", image, at, size)
    view = memoryview(image).cast("B").cast("Q")
    before = seed << 32 | seed
    wrong = sum(word != before + changed for word in view[::EVERY].tolist())
    for i in range(0, size // 8, EVERY):
        view[i] = before
    start = ctypes.addressof(image)
    same = LIBC.memcmp(
        ctypes.c_void_p(start), ctypes.c_void_p(start + 8), ctypes.c_size_t(size - 8)
    )
    return wrong + bool(same) + (view[0] != before)


def main() -> int:
    """Run it; 3 when some words are wrong."""
    total, rounds, seed = (int(argument) for argument in sys.argv[1:4])
    driver = Driver()
    driver.start()
    touch, stream = driver.kernels()["touch_u64"], driver.stream()
    size = total // 2 // (2 * MIB) * 2 * MIB
    pieces = [driver.get("cuMemAlloc_v2", size) for _ in range(2)]
    for at in pieces:
        driver.call("cuMemsetD32_v2", at, seed, size // 4)
    driver.sync()
    driver.call("cuStreamBeginCapture_v2", stream, 2)
    for _ in range(NODES):
        for at in pieces:
            driver.launch(touch, (at, size // 8, EVERY), stream, blocks=64, threads=128)
    ready = driver.get(
        "cuGraphInstantiateWithFlags", driver.get_last("cuStreamEndCapture", stream), 0
    )
    for _ in range(rounds):
        driver.call("cuGraphLaunch", ready, stream)
        driver.sync(stream)
        time.sleep(0.01)
    wrong = 0
    for at in pieces:
        for start in range(0, size, PIECE):
            piece = min(PIECE, size - start)
            wrong += wrong_words(driver, at + start, piece, seed, NODES * rounds)
    print(f"{wrong} words wrong")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
