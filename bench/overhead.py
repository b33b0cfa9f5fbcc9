"""What the gate adds to one driver call, on a driver that does nothing.

Pairs of processes, one without and one with the shim, run in turn; a figure is the median of the
differences. The driver is bench/native's: simgpu's own work would hide nanoseconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from bench.figure import Figure
from moiety.devices.native import shim_path
from moiety.testing.agent import FakeAgent
from moiety.testing.native import compile_c

HERE = Path(__file__).resolve().parent
PAIRS = 15
SAMPLES = 8
DEVICE = "null driver"


def build(folder: Path) -> None:
    """The driver that does nothing, and the program that calls it."""
    include = f"-I{HERE.parent / 'native'}"
    native = HERE / "native"
    compile_c(
        [native / "null_driver.c", native / "null_calls.c"],
        folder / "libcuda.so.1",
        shared=True,
        flags=(include, "-O2", "-Wl,-soname,libcuda.so.1", "-ldl"),
    )
    compile_c(
        [native / "overhead.c"],
        folder / "overhead",
        flags=(include, "-O2", "-ldl", "-lpthread"),
    )


def call_ns(folder: Path, call: str, threads: int, shim: Path | None) -> float:
    """Median nanoseconds of one call, with the shim (a lease is held) or without."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    command = [str(folder / "overhead"), call, str(threads), str(SAMPLES)]
    if shim is None:
        out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    else:
        path = folder / "shim.sock"
        with FakeAgent(path) as agent:
            env |= {"LD_PRELOAD": str(shim), "MOIETY_SOCKET": str(path)}
            process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
            agent.accept()
            out, _ = process.communicate()
    return statistics.median(float(line) for line in out.split())


def figure(folder: Path, name: str, call: str, threads: int, bar: float) -> Figure:
    """One figure from PAIRS interleaved pairs."""
    shim = shim_path()
    if shim is None:
        raise SystemExit("bench: the native libraries are not built; run make bench")
    pairs = [
        (call_ns(folder, call, threads, None), call_ns(folder, call, threads, shim))
        for _ in range(PAIRS)
    ]
    return Figure(
        name=name,
        value=statistics.median(with_shim - without for without, with_shim in pairs),
        unit="ns",
        bar=bar,
        better="lower",
        device=DEVICE,
        samples=PAIRS,
        baseline=statistics.median(without for without, _ in pairs),
        note="added to a call that alone takes the baseline",
    )


def measure() -> list[Figure]:
    """Launches from one and from four threads, and a small copy."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        build(folder)
        return [
            figure(folder, "launch_overhead_ns", "launch", 1, 5),
            figure(folder, "launch_overhead_4t_ns", "launch", 4, 5),
            figure(folder, "copy_overhead_ns", "copy", 1, 10),
        ]
