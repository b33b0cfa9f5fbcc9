"""A graph, captured once: what it copies is right each time, wherever the memory was meanwhile.

usage: replayed.py MIB       SIGUSR1: enough
"""

from __future__ import annotations

import signal
import sys

import torch  # type: ignore[import-not-found, unused-ignore]

MIB = 1 << 20


def main() -> int:
    """Replay until told."""
    enough: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: enough.append(1))
    words = int(sys.argv[1]) * MIB // 8 // 3
    source, between, target = (
        torch.zeros(words, dtype=torch.int64, device="cuda") for _ in range(3)
    )
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        between.copy_(source)
        torch.cuda._sleep(100_000)
        target.copy_(between)
    print("ready", flush=True)
    replays = wrong = 0
    while not enough or replays < 10:
        expected = torch.arange(words, dtype=torch.int64) * (2 * replays + 1)
        source.copy_(expected)
        graph.replay()
        wrong += int((target.cpu() != expected).sum())
        replays += 1
    print(f"{wrong} words wrong")
    print(f"{replays} replays", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
