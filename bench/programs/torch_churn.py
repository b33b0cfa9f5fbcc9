"""PyTorch's allocation churn, again for each line that comes: prints the seconds that it took.

Tensors of many sizes come and go, from the caching allocator, and at times its cache is emptied,
so that the driver is asked again.
"""

from __future__ import annotations

import random
import sys
import time

import torch  # type: ignore[import-not-found, unused-ignore]

KIB = 1 << 10
SIZES = [1 * KIB, 64 * KIB, 700 * KIB, 1500 * KIB, 4 << 20, 11 << 20, 24 << 20]
HELD, STEPS, EMPTIED_EVERY = 24, 6000, 1000


def churn() -> float:
    """Seconds of one round."""
    chosen = random.Random(1)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    began_s = time.perf_counter()
    held = [torch.empty(0)] * HELD
    for step in range(STEPS):
        size = chosen.choice(SIZES)
        held[chosen.randrange(HELD)] = torch.empty(size, dtype=torch.uint8, device="cuda")
        if step % EMPTIED_EVERY == 0:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    return time.perf_counter() - began_s


churn()
print("ready", flush=True)
for _ in sys.stdin:
    print(churn(), flush=True)
