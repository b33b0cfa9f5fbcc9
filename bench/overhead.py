"""What the gate and the bounded queue add to one driver call, on a driver that does nothing.

Rounds of three processes run in turn: without the shim, with it and a lone program's lease, and
with it and the tightest bound on unfinished work. A figure is the median of the differences of the
last; its note has that of the second. The driver is bench/native's: simgpu's own work would hide
nanoseconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from bench.figure import Figure
from moiety.devices.native import shim_path
from tests.support.native import compile_c
from tests.support.wire_fakes import FakeAgent

HERE = Path(__file__).resolve().parent
ROUNDS = 15
SAMPLES = 8
BOUND_US = 100
"""As while somebody waits."""
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


def call_ns(folder: Path, call: str, threads: int, shim: Path | None, bound_us: int = 0) -> float:
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
            agent.pace(bound_us)
            out, _ = process.communicate()
    return statistics.median(float(line) for line in out.split())


def figure(folder: Path, name: str, call: str, threads: int, bar: float) -> Figure:
    """One figure from interleaved rounds."""
    shim = shim_path()
    if shim is None:
        raise SystemExit("bench: the native libraries are not built; run make bench")
    rounds = [
        (
            call_ns(folder, call, threads, None),
            call_ns(folder, call, threads, shim),
            call_ns(folder, call, threads, shim, BOUND_US),
        )
        for _ in range(ROUNDS)
    ]
    unbounded = statistics.median(gated - without for without, gated, _ in rounds)
    return Figure(
        name=name,
        value=statistics.median(bounded - without for without, _, bounded in rounds),
        unit="ns",
        bar=bar,
        better="lower",
        device=DEVICE,
        samples=ROUNDS,
        baseline=statistics.median(without for without, _, _ in rounds),
        note=f"added to a call that alone takes the baseline; {unbounded:.1f} ns without a bound",
    )


def measure() -> list[Figure]:
    """Launches from one and from four threads, of a graph, and a small copy."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        build(folder)
        return [
            figure(folder, "launch_overhead_ns", "launch", 1, 5),
            figure(folder, "launch_overhead_4t_ns", "launch", 4, 5),
            figure(folder, "graph_launch_overhead_ns", "graph", 1, 20),
            figure(folder, "copy_overhead_ns", "copy", 1, 10),
        ]
