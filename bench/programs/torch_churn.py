"""PyTorch's allocation churn, again for each line that comes: prints the seconds that it took.

usage: torch_churn.py [0 | grow]

Tensors of many sizes come and go, from the caching allocator. It is empty in the beginning of each
round, so that the driver is asked; with 0 only in the first. With `grow` tensors of 20 MiB come,
and none goes: each is memory that the program never had before.
"""

from __future__ import annotations

import random
import sys
import time

import torch  # type: ignore[import-not-found, unused-ignore]

KIB = 1 << 10
SIZES = [1 * KIB, 64 * KIB, 700 * KIB, 1500 * KIB, 4 << 20, 11 << 20, 24 << 20]
HELD, STEPS, GROWN = 24, 6000, 20


def churn(emptied: bool) -> float:
    """Seconds of one round."""
    chosen = random.Random(1)
    torch.cuda.synchronize()
    if emptied:
        torch.cuda.empty_cache()
    began_s = time.perf_counter()
    held = [torch.empty(0)] * HELD
    for _ in range(STEPS):
        size = chosen.choice(SIZES)
        held[chosen.randrange(HELD)] = torch.empty(size, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    return time.perf_counter() - began_s


def grow(kept: list[object]) -> float:
    """Seconds of one round."""
    torch.cuda.synchronize()
    began_s = time.perf_counter()
    kept += [torch.empty(20 << 20, dtype=torch.uint8, device="cuda") for _ in range(GROWN)]
    return time.perf_counter() - began_s


def measure(option: str, kept: list[object]) -> float:
    """Seconds of a round of that kind."""
    return grow(kept) if option == "grow" else churn(option != "0")


option = sys.argv[1] if len(sys.argv) > 1 else ""
kept: list[object] = []
measure(option, kept)
print("ready", flush=True)
for _ in sys.stdin:
    print(measure(option, kept), torch.cuda.memory_stats()["num_device_alloc"], flush=True)
