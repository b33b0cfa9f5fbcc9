"""How fast the shim's own kernel finds chunks that hold only zeros, and what loading it costs."""

from __future__ import annotations

import ctypes
import os
import re
import time
from pathlib import Path
from typing import Any

from tests.gpu.card.driver import loaded
from tests.gpu.card.run import Run, gb_per_s, label

SOURCE = Path(__file__).resolve().parents[3] / "native" / "shim" / "swap" / "scan_kernels.h"
NAME = b"moiety_find_zeros"
AT_ONCE, BLOCKS, THREADS = 72, 32, 1024
ONLY_ZEROS, DATA = 1, 2


class Page(ctypes.Structure):
    """What the kernel is asked, and its answers (native/shim/swap/scan_kernels.h)."""

    _fields_ = (
        ("ranges", ctypes.c_uint64 * (2 * AT_ONCE)),
        ("verdict", ctypes.c_uint32 * (AT_ONCE * BLOCKS)),
    )


def ptx() -> bytes:
    """The kernels' text, out of the shim's source."""
    text = SOURCE.read_text()
    parts = re.findall(r"#define (?:SCAN_HEADER|SCAN_ZEROS)\b(.*?)\n\n", text, re.DOTALL)
    lines = [line for part in parts for line in re.findall(r'"([^"]*)"', part)]
    return "".join(lines).replace("\\n", "\n").encode() + b"\0"


def measure(run: Run) -> None:
    """Load it; then look at zeros, and at data."""
    driver = run.driver
    driver.memory()
    began = time.perf_counter()
    free, _ = driver.memory()
    beside = Path(os.path.dirname(loaded("libcuda.so"))) / "kernels.elf"
    module = (
        driver.get("cuModuleLoad", bytes(beside))
        if beside.exists()
        else driver.get("cuModuleLoadData", ptx())
    )
    kernel = driver.get("cuModuleGetFunction", module, NAME)
    run.note("load_ms", round((time.perf_counter() - began) * 1000, 2))
    run.note("takes_kib", (free - driver.memory()[0]) // 1024)
    with driver.pinned(ctypes.sizeof(Page)) as host:
        where = driver.get("cuMemHostGetDevicePointer_v2", host, 0)
        for size in run.sizes(2, 64, of=run.card_bytes // 16):
            with run.part(label(size)):
                run.note(f"look_{label(size)}", look(run, kernel, host, where, size))


def look(run: Run, kernel: int, host: int, where: int, size: int) -> dict[str, Any]:
    """Chunks of this size: all zeros, then with a word at the end, then with one at the start."""
    driver, stream = run.driver, run.driver.stream()
    page = Page.from_address(host)
    found: dict[str, Any] = {}
    count = min(AT_ONCE, run.card_bytes // size)
    found["chunks"] = count
    with driver.device_memory(size * count) as at:
        for i in range(count):
            page.ranges[2 * i], page.ranges[2 * i + 1] = at + i * size, at + (i + 1) * size
        for name, word in (("zeros", None), ("data_at_the_end", size - 8), ("data", 0)):
            driver.call("cuMemsetD8_v2", at, 0, size * count)
            for i in range(count):
                if word is not None:
                    driver.call("cuMemsetD8_v2", at + i * size + word, 7, 8)
            took = []
            for _ in range(2 if run.quick else 6):
                ctypes.memset(ctypes.addressof(page.verdict), 0, ctypes.sizeof(page.verdict))
                driver.sync()
                began = time.perf_counter()
                driver.launch(kernel, (where,), stream, blocks=count, rows=BLOCKS, threads=THREADS)
                driver.sync(stream)
                took.append(time.perf_counter() - began)
            data = [DATA in page.verdict[i * BLOCKS : (i + 1) * BLOCKS] for i in range(count)]
            found[f"{name}_us"] = round(min(took) * 1e6, 1)
            found[f"{name}_wrong"] = sum(v != (word is not None) for v in data)
            if word != 0:
                found[f"{name}_gb_per_s"] = gb_per_s(size * count, min(took))
    driver.call("cuStreamDestroy_v2", stream)
    return found
