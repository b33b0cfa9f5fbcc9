"""An ordinary training with PyTorch that gives the same bits each time; prints what came out.

usage: train.py STEPS MIB SEED [--graph]      MIB: of weights, gradients and Adam's moments
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as PyTorch asks for it

import torch  # type: ignore[import-not-found, unused-ignore]

WIDTH, BATCH = 4096, 256
COPIES = 4
"""weights, gradients, two moments"""


def digest(tensor: Any) -> int:
    """Of every bit; a few rows at a time, because it is to take little memory of its own."""
    total = 0
    for rows in tensor.detach().contiguous().view(torch.int32).split(256):
        words = rows.flatten().to(torch.int64)
        places = torch.arange(words.numel(), device=words.device, dtype=torch.int64)
        total = total * 31 + int((words * (places % 8191 + 1)).sum().item())
    return total & (1 << 63) - 1


def replayed(model: Any, inputs: Any, steps: int) -> int:
    """What the model says, from one recorded graph that is replayed."""
    static = inputs.clone()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(static)
        for step in range(steps):
            static.copy_(inputs * (step % 7 + 1))
            graph.replay()
            torch.cuda.synchronize()
            time.sleep(0.02)
        return digest(out)


def main() -> int:
    """Train, and print."""
    steps, mib, seed = (int(argument) for argument in sys.argv[1:4])
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    layers = max(mib * (1 << 20) // (COPIES * 4 * WIDTH * WIDTH), 1)
    parts = [
        part
        for _ in range(layers)
        for part in (torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda"), torch.nn.Tanh())
    ]
    model = torch.nn.Sequential(*parts)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)
    inputs = torch.randn(BATCH, WIDTH, device="cuda")
    wanted = torch.randn(BATCH, WIDTH, device="cuda")
    loss = torch.zeros((), device="cuda")
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        time.sleep(0.02)
    of_weights = [digest(weight) for weight in model.parameters()]
    print(f"loss {loss.item().hex()}, weights {sum(of_weights) & (1 << 63) - 1}")
    if "--graph" in sys.argv:
        print(f"replayed {replayed(model, inputs, steps)}")
    taken = torch.cuda.max_memory_reserved() >> 20
    print(f"train: {layers} layers, {taken} MiB reserved at most", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
