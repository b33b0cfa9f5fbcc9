"""Tensors whose words can be foretold, written, copied, freed and read back until told to stop.

usage: moving.py MIB SEED       SIGUSR1: enough; it looks at all of them once more and ends

Kernels compute nothing on simgpu, so all values come from copies.
"""

from __future__ import annotations

import random
import signal
import sys

import torch  # type: ignore[import-not-found, unused-ignore]

MIB = 1 << 20
SIZES = [4096, 96 << 10, 1 * MIB, 3 * MIB, 12 * MIB]
"""of tensors, bytes: of PyTorch's small pool, its large one, and on their own"""


def pattern(words: int, key: int) -> torch.Tensor:
    """What a tensor holds."""
    return torch.arange(words, dtype=torch.int64) * 6364136223846793005 + key


class Tensors:
    """Tensors on the GPU, each with the key of its pattern."""

    def __init__(self, total: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.held: list[tuple[torch.Tensor, int]] = []
        self.streams = [torch.cuda.Stream() for _ in range(2)]
        self.wrong = 0
        taken = 0
        while taken < total:
            size = min(self.random.choice(SIZES), max(total - taken, 4096))
            self.held.append(self.new(size // 8))
            taken += size

    def new(self, words: int) -> tuple[torch.Tensor, int]:
        """A tensor that came from the host, out of pinned memory or not."""
        key = self.random.getrandbits(62)
        host = pattern(words, key)
        tensor = torch.empty(words, dtype=torch.int64, device="cuda")
        if self.random.random() < 0.5:
            tensor.copy_(host.pin_memory(), non_blocking=True)
            torch.cuda.current_stream().synchronize()  # the pinned memory goes now
        else:
            tensor.copy_(host)
        return tensor, key

    def check(self, at: int) -> None:
        """Read a tensor back."""
        tensor, key = self.held[at]
        self.wrong += int((tensor.cpu() != pattern(tensor.numel(), key)).sum())

    def step(self) -> None:
        """One of the things that programs do."""
        at = self.random.randrange(len(self.held))
        tensor, key = self.held[at]
        torch.cuda._sleep(200_000)  # ns of the GPU
        match self.random.randrange(4):
            case 0:  # free it, and take another
                words = tensor.numel()
                self.held[at] = (torch.empty(0), 0)
                del tensor
                self.held[at] = self.new(words)
            case 1:  # write it anew
                key = self.random.getrandbits(62)
                tensor.copy_(pattern(tensor.numel(), key))
                self.held[at] = (tensor, key)
            case 2:  # copy it on the GPU, to another stream's memory and back
                stream = self.random.choice(self.streams)
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    copied = torch.empty_like(tensor)
                    copied.copy_(tensor, non_blocking=True)
                    tensor.zero_()
                    tensor.copy_(copied, non_blocking=True)
                tensor.record_stream(stream)
                torch.cuda.current_stream().wait_stream(stream)
            case _:
                self.check(at)


def main() -> int:
    """Go on until told."""
    enough: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: enough.append(1))
    tensors = Tensors(int(sys.argv[1]) * MIB, int(sys.argv[2]))
    print("ready", flush=True)
    steps = 0
    while not enough:
        tensors.step()
        steps += 1
    for at in range(len(tensors.held)):
        tensors.check(at)
    print(f"{tensors.wrong} words wrong")
    print(f"{steps} steps", file=sys.stderr)
    return 1 if tensors.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
