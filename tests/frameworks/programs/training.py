"""A training's memory traffic: its kernels compute nothing here, its copies are looked at.

usage: training.py WIDTH BATCH      SIGUSR1: enough
"""

from __future__ import annotations

import signal
import sys

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import nn  # type: ignore[import-not-found, unused-ignore]

SAMPLES = 8


def main() -> int:
    """Train until told; the samples lie on the GPU all the while."""
    enough: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: enough.append(1))
    width, batch = (int(argument) for argument in sys.argv[1:3])
    torch.backends.cudnn.enabled = False
    model = nn.Sequential(
        nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * width, width)
    ).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    hosts = [torch.arange(batch * width).float().view(batch, 1, width) + n for n in range(SAMPLES)]
    samples = [host.cuda() for host in hosts]
    targets = torch.zeros(batch, width, device="cuda")
    steps = wrong = 0
    print("ready", flush=True)
    while not enough or steps < 10:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(samples[steps % SAMPLES]), targets)
        loss.backward()
        optimizer.step()
        at = (steps + 3) % SAMPLES
        wrong += int((samples[at].cpu() != hosts[at]).sum())
        steps += 1
    print(f"{wrong} words wrong")
    print(f"{steps} steps", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
