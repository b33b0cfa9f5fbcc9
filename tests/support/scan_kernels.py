"""The shim's kernels in both forms: PTX under the interpreter, and simgpu's on the CPU."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.support.native import compile_c
from tests.support.ptx import Block, Memory

NATIVE: Final = Path(__file__).resolve().parents[2] / "native"
SLOTS, BLOCKS = 72, 32
PRINT: Final = """
#include <stdio.h>
#include "shim/swap/scan_kernels.h"
int main(void) { fputs(SCAN_MODULE, stdout); return 0; }
"""


class Page(ctypes.Structure):
    """struct scan_page of native/shim/swap/scan_kernels.h."""

    _fields_ = (
        ("chunk", ctypes.c_uint64 * 2 * SLOTS),
        ("verdict", ctypes.c_uint32 * BLOCKS * SLOTS),
        ("hash", ctypes.c_uint64 * 2 * BLOCKS * SLOTS),
    )


class Launch(ctypes.Structure):
    """struct simgpu_launch of native/simgpu/kernel.h."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("pointers", ctypes.c_void_p * 4),
        ("memory_bytes_per_s", ctypes.c_uint64),
    )


class Kernel(ctypes.Structure):
    """The start of struct simgpu_kernel."""

    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("params", ctypes.c_uint32),
        ("body", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)),
        ("time_ns", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)),
    )


def module_text(folder: Path) -> str:
    """The PTX that the shim gives to the driver."""
    source = folder / "print.c"
    source.write_text(PRINT)
    program = compile_c([source], folder / "print", flags=[f"-I{NATIVE}"])
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def page_of(chunks: Sequence[np.ndarray[Any, Any]]) -> Page:
    """A page that names chunks, at their addresses in this process."""
    page = Page()
    for i, chunk in enumerate(chunks):
        page.chunk[i][0] = chunk.ctypes.data
        page.chunk[i][1] = chunk.ctypes.data + chunk.nbytes
    return page


def interpret(
    text: str,
    kernel: str,
    page: Page,
    chunks: Sequence[np.ndarray[Any, Any]],
    more: Mapping[str, bytes] = {},
    blocks: Sequence[int] = range(BLOCKS),
    columns: int | None = None,
) -> int:
    """Run blocks of a grid from its PTX; returns how many barriers they passed.

    The grid has `columns` columns, one for each chunk if that is None.
    """
    at, barriers = ctypes.addressof(page), 0
    memory = Memory({at: np.frombuffer(memoryview(page).cast("B"), np.uint8)})
    memory.ranges |= {chunk.ctypes.data: chunk.view(np.uint8) for chunk in chunks}
    for x in range(len(chunks) if columns is None else columns):
        for y in blocks:
            block = Block(text, kernel, memory, {"%ctaid.x": x, "%ctaid.y": y})
            block.run({"page": at.to_bytes(8, "little"), **more})
            barriers += block.barriers
    return barriers


def simulate(
    simgpu: Path, kernel: str, page: Page, chunks: int, *more: Any, per_s: int = 10**12
) -> int:
    """Run simgpu's form of a kernel; returns the ns of GPU time that it charges."""
    library = ctypes.CDLL(str(simgpu / "kernels.elf"))
    found = Kernel.in_dll(library, f"simgpu_kernel_{kernel}")
    launch = Launch(grid=(chunks, BLOCKS, 1), block=(1024, 1, 1), memory_bytes_per_s=per_s)
    values = [ctypes.c_uint64(ctypes.addressof(page)), *more]
    params = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    found.body(ctypes.addressof(launch), ctypes.addressof(params))
    return int(found.time_ns(ctypes.addressof(launch), ctypes.addressof(params)))
