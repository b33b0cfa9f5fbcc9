"""Something that uses a GPU for a while: train.py [MIB]. With KEEP=1 until it is ended."""

from __future__ import annotations

import ctypes
import os
import sys
import time

cuda = ctypes.CDLL("libcuda.so.1")
size = (int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdecimal() else 64) << 20


def must(error: int) -> None:
    if error:
        sys.exit(f"the driver says error {error}")


context, memory = ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)))
rounds = 0
while rounds < 10 or os.environ.get("KEEP") == "1":
    must(cuda.cuMemsetD32_v2(memory, rounds, ctypes.c_size_t(size // 4)))
    must(cuda.cuCtxSynchronize())
    time.sleep(0.02)
    rounds += 1
