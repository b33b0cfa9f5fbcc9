"""How long single calls take: by calls.c where there is a compiler, otherwise through ctypes."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gpu.card.driver import CudaError, Driver

SOURCE = Path(__file__).with_name("calls.c")
ARGUMENTS = 11
PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * ARGUMENTS)

Row = Sequence[int]


def compilers() -> Iterator[list[str]]:
    """C compilers that might be here."""
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            yield [found, "-fPIC"]
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if os.access(nvcc, os.X_OK):
        yield [nvcc, "-Xcompiler", "-fPIC"]
    if importlib.util.find_spec("ziglang") is not None:
        yield [sys.executable, "-m", "ziglang", "cc", "-fPIC"]


def build(out: Path) -> str:
    """Make calls.c a library; which compiler did it, or nothing."""
    for command in compilers():
        made = subprocess.run(
            [*command, "-O2", "-shared", str(SOURCE), "-o", str(out)],
            capture_output=True,
            timeout=60,
        )
        if made.returncode == 0:
            return command[0]
    return ""


@contextmanager
def library(*, build_it: bool = True) -> Iterator[str]:
    """The path of calls.c as a library, for as long as the block lasts; empty: no compiler."""
    with tempfile.TemporaryDirectory(prefix="facts") as folder:
        path = Path(folder) / "calls.so"
        yield str(path) if build_it and build(path) else ""


class Timer:
    """Times calls of one driver."""

    def __init__(self, driver: Driver, path: str = "") -> None:
        self.driver = driver
        self.library: Any = ctypes.CDLL(path) if path else None
        self.empty_ns = 0.0
        """what ctypes itself costs at least, already taken off"""
        if not path:
            # a function of C that does next to nothing: one of Python's would cost more to enter
            labs = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value or 0
            nothing = PROTOTYPE(labs)
            # the least: a busy machine makes some calls slower, and never one faster
            self.empty_ns = min(self._by_ctypes(nothing, [[0] * ARGUMENTS] * 200, 1))

    @property
    def how(self) -> str:
        """Where the times come from."""
        return "calls.c" if self.library else f"ctypes, less {self.empty_ns:.0f} ns for itself"

    def rows(self, name: str, rows: Sequence[Row], inner: int = 1) -> list[float]:
        """Nanoseconds of one call for each row of arguments, `inner` times each.

        Raises:
            CudaError: one of them failed.
        """
        full = [[*row, *[0] * (ARGUMENTS - len(row))] for row in rows]
        if self.library is None:
            function = PROTOTYPE(self.driver.address(name))
            return self._by_ctypes(function, full, inner, name)
        table = (ctypes.c_uint64 * (len(full) * ARGUMENTS))(*(a for row in full for a in row))
        ns = (ctypes.c_double * len(full))()
        code = self.library.time_calls(
            ctypes.c_void_p(self.driver.address(name)),
            table,
            *map(ctypes.c_uint64, (ARGUMENTS, len(full), inner)),
            ns,
        )
        self._check(name, code)
        return list(ns)

    def same(self, name: str, *arguments: int, samples: int = 50, inner: int = 20) -> list[float]:
        """The same call again and again."""
        return self.rows(name, [arguments] * samples, inner)

    def bounded(
        self, launch: Row, stream: int, events: Sequence[int], every: int, count: int
    ) -> float | None:
        """Nanoseconds of one launch with a mark after each `every`; None without a compiler."""
        if self.library is None:
            return None
        row = (ctypes.c_uint64 * ARGUMENTS)(*launch)
        marks = (ctypes.c_uint64 * (len(events) or 1))(*events)
        ns = ctypes.c_double()
        names = ("cuLaunchKernel", "cuEventRecord", "cuEventSynchronize")
        launching, record, wait = (ctypes.c_void_p(self.driver.address(n)) for n in names)
        code = self.library.time_bounded(
            launching, row, record, wait, marks,
            *map(ctypes.c_uint64, (len(events), stream, every, count)), ctypes.byref(ns),
        )  # fmt: skip
        self._check("a bounded launch", code)
        self.driver.sync(stream)
        return ns.value

    def _by_ctypes(
        self, function: Any, rows: Sequence[Row], inner: int, name: str = ""
    ) -> list[float]:
        times = []
        for row in rows:
            began = time.perf_counter_ns()
            for _ in range(inner):
                self._check(name, function(*row))
            took = (time.perf_counter_ns() - began) / inner
            times.append(max(took - self.empty_ns, 0.0))
        return times

    def _check(self, name: str, code: int) -> None:
        if code:
            raise CudaError(name, code, self.driver.error_name(code))


def spread(ns: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Median, mean, 99th percentile and maximum, in microseconds."""
    ordered = sorted(ns)
    last = ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)]
    values = {
        "median_us": statistics.median(ordered),
        "mean_us": statistics.fmean(ordered),
        "p99_us": last,
        "max_us": ordered[-1],
    }
    return {name: round(value / 1000, digits) for name, value in values.items()}


def launch_row(kernel: int, stream: int, arguments: Sequence[int] = ()) -> tuple[Row, Any]:
    """The arguments of one cuLaunchKernel of a single thread, and what must outlive the calls."""
    values = [ctypes.c_uint64(a) for a in arguments]
    pointers = (ctypes.c_void_p * (len(values) or 1))(*map(ctypes.addressof, values))
    row = (kernel, 1, 1, 1, 1, 1, 1, 0, stream, ctypes.addressof(pointers), 0)
    return row, (values, pointers)
