"""native/phases.c with PyTorch: a job that alternates between the GPU and the CPU.

usage: torch_phases.py BYTES WARM PHASES GPU_US CPU_US SEED

It says when it is ready, works and waits for a line as phases.c does. Kernels compute nothing on
simgpu, so what is checked in the end are the words that were copied there in the beginning.
"""

from __future__ import annotations

import sys
import time

import torch  # type: ignore[import-not-found, unused-ignore]

KERNEL_US = 1000
QUEUED = 5


def wait_for_line() -> None:
    """Until told to go on."""
    sys.stdout.flush()
    if not sys.stdin.readline():
        sys.exit(1)


def spin(left_us: int) -> None:
    """Keep the GPU busy for so long, in kernels of which a few are queued."""
    queued = 0
    while left_us > 0:
        torch.cuda._sleep(min(left_us, KERNEL_US) * 1000)  # ns of the GPU
        left_us -= KERNEL_US
        queued += 1
        if queued % QUEUED == 0 or left_us <= 0:
            torch.cuda.synchronize()


def main() -> int:
    """All of it."""
    size, warm, phases, gpu_us, cpu_us, seed = (int(argument) for argument in sys.argv[1:7])
    host = torch.arange(size // 8, dtype=torch.int64) * 6364136223846793005 + seed
    tensor = host.cuda()
    torch.cuda.synchronize()

    def work(count: int) -> None:
        for _ in range(count):
            tensor.add_(1)
            spin(gpu_us)
            time.sleep(cpu_us / 1e6)

    print("ready")
    wait_for_line()
    work(warm)
    print("ready")
    wait_for_line()
    began_ns = time.monotonic_ns()
    work(phases)
    print("done", began_ns, time.monotonic_ns())
    wait_for_line()
    wrong = int((tensor.cpu() != host).sum())
    print(f"{wrong} words wrong")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
