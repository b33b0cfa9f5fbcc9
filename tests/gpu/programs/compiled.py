"""torch.compile: a small network whose kernels Triton makes here, trained for some steps.

usage: compiled.py STEPS SEED
"""

from __future__ import annotations

import sys
import time

import torch  # type: ignore[import-not-found, unused-ignore]


def main() -> int:
    """Train, and print what came out, and whether that is near what it does uncompiled."""
    steps, seed = (int(argument) for argument in sys.argv[1:3])
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    width = 512
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width),
        torch.nn.Linear(width, width),
    ).cuda()  # fmt: skip
    inputs = torch.randn(256, width, device="cuda")
    wanted = torch.randn(256, width, device="cuda")
    plain = float(torch.nn.functional.mse_loss(model(inputs), wanted))

    @torch.compile  # type: ignore[untyped-decorator, unused-ignore]
    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(model(x), y)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs, wanted)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
        time.sleep(0.01)
    near = abs(found[0] - plain) < 1e-3 * abs(plain)
    print(f"near {near}, first {found[0]:.5f}, last {found[-1]:.5f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
