"""What goes wrong, and what it costs: faults injected, and losses.

Counts are those of this run: `MOIETY_SOAK_S` makes it longer (make soak). Processes, agent and shim
are real, on simgpu; the schedules are the agent's node with simulated processes in virtual time.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from bench.figure import Figure
from moiety.testing.fuzz import built, count
from moiety.testing.native import compile_c, native_dir
from moiety.testing.ordeal import GPU, Ordeal, cases
from moiety.testing.schedules import live

ROOT = Path(__file__).resolve().parents[1]
SOAK_S = float(os.environ.get("MOIETY_SOAK_S", "30"))
SCHEDULES = int(os.environ.get("MOIETY_SCHEDULES", "500"))


def measure() -> list[Figure]:
    """All of it."""
    native = native_dir()
    if native is None:
        raise FileNotFoundError("the native libraries are not built")
    return [*virtual(), *real(native)]


def virtual() -> list[Figure]:
    """Days in virtual time."""
    faults: Counter[str] = Counter()
    messages = lost = 0
    for seed in range(SCHEDULES):
        try:
            fate = live(seed)
        except AssertionError as error:
            lost += 1
            print(f"seed {seed}: {error}")
        else:
            faults += fate.faults
            messages += fate.messages
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder), ROOT)
        how = [str(program), "1", str(max(5, int(SOAK_S / 4)))]
        done = subprocess.run(how, capture_output=True, text=True, check=True)
    sent = count(done.stdout)
    note = f"seeds 0 to {SCHEDULES - 1}; {faults.total()} faults in them, {lost} schedules lost"
    return [
        Figure("virtual_schedules", SCHEDULES, "", None, "higher", "none", 1, None, note),
        Figure(
            "fuzz_messages",
            messages + sent,
            "",
            None,
            "higher",
            "none",
            1,
            None,
            f"{messages} to the agent in those schedules, {sent} to the shim's connection",
        ),
    ]


def real(native: Path) -> list[Figure]:
    """Real processes, struck at every step of their hand-offs."""
    lost = 0
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-ldl")
        worker = compile_c([ROOT / "demo" / "worker.c"], folder / "worker", flags=flags)
        with Ordeal(folder, native, worker) as ordeal:
            end_s = time.monotonic() + SOAK_S
            for case in cases(Random(1)):
                try:
                    ordeal.suffer(case)
                except AssertionError as error:
                    lost += 1
                    print(error)
                if time.monotonic() > end_s:
                    break
            struck = ordeal.struck
    note = f"SIGKILL and SIGSTOP of holder, waiter and agent, at every step; {GPU}"
    return [
        Figure("faults_injected", struck, "", None, "higher", "simgpu", 1, None, note),
        Figure("faults_with_loss", lost, "", 0, "lower", "simgpu", 1, None, note),
    ]
