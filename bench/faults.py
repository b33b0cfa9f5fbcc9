"""What goes wrong, and what it costs: faults injected, losses, and what tenants leave in the agent.

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

from bench.agent import resident_mib
from bench.figure import Figure
from moiety.agent import requests
from moiety.agent.caller import Call
from moiety.agent.timeline import TENANTS_MAX
from moiety.testing.fuzz import built, count
from moiety.testing.native import compile_c, native_dir
from moiety.testing.ordeal import GPU, Ordeal, cases
from moiety.testing.schedules import live
from moiety.testing.shim import Shim
from moiety.wire.layout import Refusal

ROOT = Path(__file__).resolve().parents[1]
SOAK_S = float(os.environ.get("MOIETY_SOAK_S", "30"))
SCHEDULES = int(os.environ.get("MOIETY_SCHEDULES", "500"))
TENANTS, FIRST = 10_000, 1000
"""tenants that come and go, and those after which nothing more may be kept"""
TOGETHER = 4
"""of them at a time"""
ASKS = 40
"""requests of each of the first, so that the rings of the timeline are full after them"""


def measure() -> list[Figure]:
    """All of it."""
    native = native_dir()
    if native is None:
        raise FileNotFoundError("the native libraries are not built")
    return [*virtual(), *real(native), growth(native)]


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


def growth(native: Path) -> Figure:
    """Bytes that the agent keeps for each tenant that came and went."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        with Ordeal(folder, native, folder / "none") as ordeal:
            uuid = bytes.fromhex(ordeal.status().gpus[0].uuid.split("-", 1)[1].replace("-", ""))
            come_and_go(ordeal, uuid, FIRST, busy=True)  # what is bounded is full then
            before = resident_mib(ordeal.agent.pid)
            come_and_go(ordeal, uuid, TENANTS // 2 - FIRST)
            halfway = resident_mib(ordeal.agent.pid)
            come_and_go(ordeal, uuid, TENANTS - TENANTS // 2)
            after = resident_mib(ordeal.agent.pid)
    each = (after - before) * (1 << 20) / (TENANTS - FIRST)
    note = f"{TENANTS} tenants, {TOGETHER} at a time; {before:.1f} MiB after {FIRST},"
    return Figure(
        "agent_growth_bytes_per_tenant",
        max(0.0, each),
        "B",
        0,
        "lower",
        "simgpu",
        1,
        None,
        f"{note} {halfway:.1f} MiB after {TENANTS // 2}, {after:.1f} MiB after all; the names "
        f"of the last {TENANTS_MAX} that are gone are kept for the timeline, and no more",
    )


def come_and_go(ordeal: Ordeal, uuid: bytes, tenants: int, *, busy: bool = False) -> None:
    """So many programs, each in a workload of its own, with a context and some memory.

    A few at a time, without a new interpreter for each: a fork has the process id and the end that
    the agent looks at, and does nothing that a program would do besides.
    """
    there: set[int] = set()
    for _ in range(tenants):
        if len(there) == TOGETHER:
            there.discard(os.wait()[0])
        child = os.fork()
        if child:
            there.add(child)
            continue
        try:
            live_and_die(ordeal, uuid, asks=ASKS if busy else 1)
        finally:
            os._exit(0)
    for child in there:
        os.waitpid(child, 0)
    ordeal.until(lambda: ordeal.tenants() == 0, "the last of them is gone")


def live_and_die(ordeal: Ordeal, uuid: bytes, asks: int) -> None:
    """One of them: it says what a shim says, and leaves without a word."""
    with Call(ordeal.directory) as call:
        wanted = requests.CreateWorkload("light", ["light"], "/")
        path = call.ask(wanted, requests.Created).socket
    shim = Shim(path)
    shim.hello("light")
    shim.attach(uuid)
    (gpu,) = shim.gpus
    shim.context(gpu)
    for _ in range(asks):  # written down each time: what was refused is remembered
        shim.alloc(gpu, 1 << 50)
        shim.refused(Refusal.LIMIT)
        shim.allocated(gpu, 1 << 20)
        shim.free(gpu, 1 << 20, 1 << 20)
