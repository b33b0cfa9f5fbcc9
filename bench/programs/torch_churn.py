"""PyTorch's allocation churn, again for each line that comes: prints the seconds that it took.

usage: torch_churn.py [0]

Tensors of many sizes come and go, from the caching allocator. It is empty in the beginning of each
round, so that the driver is asked; with 0 only in the first.
"""

from __future__ import annotations

import random
import sys
import time

import torch  # type: ignore[import-not-found, unused-ignore]

KIB = 1 << 10
SIZES = [1 * KIB, 64 * KIB, 700 * KIB, 1500 * KIB, 4 << 20, 11 << 20, 24 << 20]
HELD, STEPS = 24, 6000


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


emptied = len(sys.argv) == 1
churn(emptied)
print("ready", flush=True)
for _ in sys.stdin:
    print(churn(emptied), torch.cuda.memory_stats()["num_device_alloc"], flush=True)
