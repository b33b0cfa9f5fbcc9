"""Tensors on the GPU that one process makes and another one reads and writes, through CUDA IPC.

usage: shared.py ROUNDS MIB
"""

from __future__ import annotations

import sys
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.multiprocessing as processes  # type: ignore[import-not-found, unused-ignore]

MIB = 1 << 20


def pattern(words: int, number: int) -> torch.Tensor:
    """What a tensor holds in a round."""
    return torch.arange(words, dtype=torch.int64) * (2 * number + 1)


def other(get: Any, put: Any) -> None:
    """Look at each tensor that comes, and write what the next round would hold."""
    while (got := get.get()) is not None:
        number, tensor = got
        wrong = int((tensor.cpu() != pattern(tensor.numel(), number)).sum())
        tensor.copy_(pattern(tensor.numel(), number + 1))
        torch.cuda.synchronize()
        del tensor, got
        put.put(wrong)


def main() -> int:
    """Share, have it changed, look at every word."""
    rounds, mib = (int(argument) for argument in sys.argv[1:3])
    context = processes.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    child = context.Process(target=other, args=(there, back))
    child.start()
    wrong = 0
    words = mib * MIB // 8
    for number in range(rounds):
        tensor = torch.empty(words, dtype=torch.int64, device="cuda")
        tensor.copy_(pattern(words, number))
        torch.cuda.synchronize()
        there.put((number, tensor))
        wrong += back.get(timeout=100)
        wrong += int((tensor.cpu() != pattern(words, number + 1)).sum())
    there.put(None)
    child.join(60)
    print(f"{wrong} words wrong in {rounds} rounds, the other one ended with {child.exitcode}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
