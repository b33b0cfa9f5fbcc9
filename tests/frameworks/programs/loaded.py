"""Batches that forked workers make, through pinned memory to the GPU and back.

usage: loaded.py BATCHES MIB
"""

from __future__ import annotations

import os
import sys

import torch  # type: ignore[import-not-found, unused-ignore]
from torch.utils.data import (  # type: ignore[import-not-found, unused-ignore]
    DataLoader,
    Dataset,
)

MIB = 1 << 20


class Patterns(Dataset):  # type: ignore[misc, unused-ignore]
    """Each item: its number, who made it, and words that follow from the number."""

    def __init__(self, count: int, words: int) -> None:
        self.count, self.words = count, words

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[int, int, torch.Tensor]:
        return number, os.getpid(), torch.arange(self.words, dtype=torch.int64) * (number + 1)


def main() -> int:
    """Look at every batch on its way back; all of them stay on the GPU until the end."""
    count, mib = (int(argument) for argument in sys.argv[1:3])
    kept = torch.zeros(1, device="cuda")  # so that the workers are forked from a CUDA program
    words = mib * MIB // 8 // count
    loader = DataLoader(
        Patterns(count, words), batch_size=1, num_workers=2, pin_memory=True,
        multiprocessing_context="fork",
    )  # fmt: skip
    held, makers = [], set()
    for number, maker, host in loader:
        held.append((int(number), host.to("cuda", non_blocking=True)))
        makers.add(int(maker))
    wrong = 0
    for number, tensor in held:
        expected = torch.arange(words, dtype=torch.int64) * (number + 1)
        wrong += int((tensor.cpu()[0] != expected).sum())
    del kept
    print(f"{wrong} words wrong in {len(held)} batches of {len(makers - {os.getpid()})} workers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
