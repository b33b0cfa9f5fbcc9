"""The same program as worker.c, written with NVIDIA's cuda-core. It knows nothing of moiety.

usage: worker.py KERNELS BYTES ROUNDS GPU_MS CPU_MS SEED
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch

MIB = 1 << 20
WIDE = LaunchConfig(grid=1024, block=256)
ONE = LaunchConfig(grid=1, block=1)


def check(result: tuple[Any, ...]) -> Any:
    """Raise on a driver error; return what else the call returned."""
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"worker: the driver said {result[0]}")
    return result[1] if len(result) > 1 else None


def main() -> int:
    """Run it; 0 when every word is right, 3 when some are wrong."""
    kernels, total_bytes, rounds, gpu_ms, cpu_ms, seed = (
        sys.argv[1],
        *(int(a) for a in sys.argv[2:7]),
    )
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    image = Path(kernels).read_bytes()
    is_ptx = image.lstrip().startswith(b"/") or b".version" in image[:512]
    module = ObjectCode.from_ptx(image) if is_ptx else ObjectCode.from_cubin(image)
    fill, step, verify, spin = (
        module.get_kernel(name) for name in ("fill_u64", "step_u64", "check_u64", "spin_us")
    )
    pieces = []
    left = total_bytes
    for size in (8192, 5 * MIB, total_bytes // 3 // 8 * 8):
        pieces.append((check(driver.cuMemAlloc(size)), size // 8))
        left -= size
    pieces.append((check(driver.cuMemAlloc(left)), left // 8))
    for i, (at, words) in enumerate(pieces):
        launch(stream, WIDE, fill, int(at), words, seed + i)
    enough = []
    signal.signal(signal.SIGUSR1, lambda number, _: enough.append(number))
    done = 0
    while done < rounds and not enough:
        began = time.monotonic()
        for at, words in pieces:
            launch(stream, WIDE, step, int(at), words, done)
        stream.sync()
        while (time.monotonic() - began) * 1000 < gpu_ms:
            launch(stream, ONE, spin, 2000)
            stream.sync()
        time.sleep(cpu_ms / 1000)
        done += 1
    rounds = done
    steps = bytearray().join(k.to_bytes(8, "little") for k in range(rounds)) + bytes(8)
    device_steps = check(driver.cuMemAlloc(len(steps)))
    errors = check(driver.cuMemAlloc(8))
    check(driver.cuMemcpyHtoD(device_steps, bytes(steps), len(steps)))
    check(driver.cuMemsetD8(errors, 0, 8))
    for i, (at, words) in enumerate(pieces):
        launch(
            stream, WIDE, verify, int(at), words, seed + i, int(device_steps), rounds, int(errors)
        )
    stream.sync()
    wrong = bytearray(8)
    check(driver.cuMemcpyDtoH(wrong, errors, 8))
    for at, _ in [*pieces, (device_steps, 0), (errors, 0)]:
        check(driver.cuMemFree(at))
    print(f"{int.from_bytes(wrong, 'little')} words wrong")
    return 3 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
