"""What PyTorch programs do with memory: tensors that come and go, streams, a graph, running out.

usage: torch_habits.py [--no-graph]
"""

from __future__ import annotations

import sys

import torch  # type: ignore[import-not-found, unused-ignore]

MIB = 1 << 20


def copies() -> bool:
    """Tensors from pageable and pinned memory, some given up on the way; all are right."""
    held = []
    for number in range(20):
        words = (1 + number % 5) * MIB // 8
        tensor = torch.empty(words, dtype=torch.int64, device="cuda")
        host = torch.arange(words) * number
        if number % 2:
            tensor.copy_(host.pin_memory(), non_blocking=True)
        else:
            tensor.copy_(host)
        held.append((tensor, host))
        if number % 7 == 6:
            held.pop(0)
    torch.cuda.synchronize()
    return all(bool((tensor.cpu() == host).all()) for tensor, host in held)


def streams() -> None:
    """Work in another stream, between events."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.Stream()
    source = torch.zeros(MIB, dtype=torch.int64, device="cuda")
    with torch.cuda.stream(stream):
        first.record()
        source.clone()
        last.record()
    stream.synchronize()
    first.elapsed_time(last)


def graph() -> None:
    """Recorded once, replayed."""
    static, source = (torch.zeros(MIB // 4, dtype=torch.int64, device="cuda") for _ in range(2))
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        static.copy_(source)
        static.clone()
    for _ in range(5):
        recorded.replay()
    torch.cuda.synchronize()


def main() -> int:
    """All of it."""
    right = copies()
    streams()
    large = [torch.empty(40 * MIB, dtype=torch.uint8, device="cuda") for _ in range(6)]
    if "--no-graph" not in sys.argv:
        graph()
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        print("out of memory, as it should be")
    del large
    torch.cuda.empty_cache()
    for _ in range(100):
        small = torch.empty(1 << 16, device="cuda")
        small = small + small
    torch.cuda.synchronize()
    print(f"right: {right}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
