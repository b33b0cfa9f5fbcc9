"""What each process received of a simulated GPU, by the card's own count."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOM = 256
"""Processes that simgpu allows on its GPUs."""


class Time(ctypes.Structure):
    """`struct simgpu_process_time` of native/simgpu/nvml/process_times.h."""

    _fields_ = (("pid", ctypes.c_uint64), ("busy_ns", ctypes.c_uint64))


class CardTimes:
    """A process beside the programs that reads the count; `env` as theirs, `simgpu` the libraries.

    Libraries of simgpu take their GPUs from the environment, once for each process: so the reader
    is a process of its own.
    """

    def __init__(self, env: Mapping[str, str], simgpu: Path) -> None:
        self._switches = 0
        self.reader = subprocess.Popen(
            [sys.executable, __file__, str(simgpu / "libnvidia-ml.so.1")],
            env={**env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.reader.communicate()

    @property
    def switches(self) -> int:
        """How often the GPU had changed from one process to another at the last `read`."""
        return self._switches

    def read(self, gpu: int = 0) -> tuple[float, dict[int, float]]:
        """The time of the count, and the microseconds on the GPU of each process, by its pid.

        Raises:
            RuntimeError: the reader ended, or there is no such GPU.
        """
        assert self.reader.stdin
        assert self.reader.stdout
        self.reader.stdin.write(f"{gpu}\n")
        self.reader.stdin.flush()
        line = self.reader.stdout.readline()
        if not line:
            raise RuntimeError(f"the reader of GPU {gpu} ended with {self.reader.wait()}")
        now_s, self._switches, times = json.loads(line)
        return now_s, {int(pid): us for pid, us in times.items()}


def parts(
    before: tuple[float, dict[int, float]], after: tuple[float, dict[int, float]]
) -> dict[int, float]:
    """The part of the GPU that each process received between two counts."""
    took_us = (after[0] - before[0]) * 1e6
    return {pid: (us - before[1].get(pid, 0.0)) / took_us for pid, us in after[1].items()}


def _serve(library: str) -> None:
    nvml: Any = ctypes.CDLL(library)
    if nvml.nvmlInit_v2() != 0:
        raise SystemExit("the GPUs cannot be opened")
    for line in sys.stdin:
        times, now, switches = (Time * ROOM)(), ctypes.c_uint64(), ctypes.c_uint64()
        count = nvml.simgpu_process_times(
            int(line), times, ROOM, ctypes.byref(now), ctypes.byref(switches)
        )
        if count < 0:
            raise SystemExit(f"there is no GPU {line.strip()}")
        found = {one.pid: one.busy_ns / 1e3 for one in times[:count]}
        print(json.dumps([now.value / 1e9, switches.value, found]), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
