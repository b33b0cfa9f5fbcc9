"""Tensors on the GPU that one process makes and another one changes, through CUDA IPC.

usage: shared_tensors.py ROUNDS MIB
"""

from __future__ import annotations

import sys
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.multiprocessing as processes  # type: ignore[import-not-found, unused-ignore]


def child(get: Any, put: Any) -> None:
    """Add one to every tensor that comes, until there is none."""
    while (tensor := get.get()) is not None:
        tensor += 1
        torch.cuda.synchronize()
        del tensor
        put.put("done")


def main() -> int:
    """Share, have it changed, look at every word."""
    rounds, mib = (int(argument) for argument in sys.argv[1:3])
    context = processes.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    other = context.Process(target=child, args=(there, back))
    other.start()
    wrong = 0
    for number in range(rounds):
        tensor = torch.full((mib << 18,), number, device="cuda", dtype=torch.int32)
        torch.cuda.synchronize()
        there.put(tensor)
        assert back.get(timeout=60) == "done"
        wrong += int((tensor != number + 1).sum())
    there.put(None)
    other.join(60)
    print(f"{wrong} words wrong, child ended with {other.exitcode}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
