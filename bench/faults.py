"""What goes wrong, and what it costs: faults injected, losses, and what tenants leave in the agent.

Processes, agent and shim are real, on simgpu; the schedules are the agent's node with simulated
processes in virtual time. Counts are those of this run, and `bench/soak.py` has larger ones. Each
part of it can be measured by itself: `bench/run.py faults_virtual`, `faults_real`, `faults_growth`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.agent import resident_mib
from bench.figure import Figure
from moiety.agent import requests
from moiety.agent.caller import Call
from moiety.agent.timeline import TENANTS_MAX
from moiety.testing.fuzz import built, count
from moiety.testing.native import compile_c, native_dir
from moiety.testing.ordeal import GPU, Case, Ordeal, cases
from moiety.testing.schedules import live
from moiety.testing.shim import Shim
from moiety.testing.world import no_descriptor_stays
from moiety.wire.layout import Refusal

ROOT = Path(__file__).resolve().parents[1]
REAL_S = 30.0
FUZZ_S = 8
SCHEDULES = 500
AT_A_TIME = 25
"""schedules that a process lives before it tells of them"""
TENANTS, FIRST = 10_000, 1000
"""tenants that come and go, and those after which nothing more may be kept"""
TOGETHER = 4
"""of them at a time"""
ASKS = 40
"""requests of each of the first, so that the rings of the timeline are full after them"""


def measure() -> list[Figure]:
    """All of it."""
    return [*virtual(), *real(), *growing()]


@dataclass
class Lived:
    """What became of some schedules."""

    faults: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    lost: list[str] = field(default_factory=list)
    """what did not hold, by seed"""


def lived(seeds: range) -> Lived:
    """Some schedules, one after the other."""
    found = Lived()
    for seed in seeds:
        try:
            with no_descriptor_stays():
                fate = live(seed)
        except Exception as error:  # whatever the agent raises would have ended it
            found.lost.append(f"seed {seed}: {error!r}")
        else:
            found.faults += fate.faults
            found.messages += fate.messages
    return found


def virtual(schedules: int = SCHEDULES, bar: int | None = None) -> list[Figure]:
    """Days in virtual time, in as many processes as there are processors; and fuzzing."""
    all_ = Lived()
    pieces = [
        range(first, min(first + AT_A_TIME, schedules)) for first in range(0, schedules, AT_A_TIME)
    ]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as several:
        for part in several.map(lived, pieces):
            all_.faults += part.faults
            all_.messages += part.messages
            all_.lost += part.lost
            for each in part.lost:
                print(each, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        how = [str(built(Path(folder), ROOT)), "1", str(FUZZ_S)]
        done = subprocess.run(how, capture_output=True, text=True, check=True)
    sent = count(done.stdout)
    seeds = f"seeds 0 to {schedules - 1}"
    note = f"{seeds}; {all_.faults.total()} faults in them"
    told = f"{all_.messages} to the agent in those schedules, {sent} to the shim's connection"
    lost = f"of them; {seeds}"
    return [
        Figure("virtual_schedules", schedules, "", bar, "higher", "none", 1, None, note),
        Figure("virtual_schedules_lost", len(all_.lost), "", 0, "lower", "none", 1, None, lost),
        Figure("fuzz_messages", all_.messages + sent, "", None, "higher", "none", 1, None, told),
    ]


def real(seconds: float = REAL_S) -> list[Figure]:
    """Real processes, struck at every step of their hand-offs, for about so long."""
    native = existing()
    struck = lost = 0
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-ldl")
        worker = compile_c([ROOT / "demo" / "worker.c"], folder / "worker", flags=flags)
        left = until(time.monotonic() + seconds, cases(Random(1)))
        while case := next(left, None):
            here = Path(tempfile.mkdtemp(dir=folder))
            with Ordeal(here, native, worker) as ordeal:  # a new one after each loss
                try:
                    while case:
                        ordeal.suffer(case)
                        case = next(left, None)
                except AssertionError as error:
                    lost += 1
                    print(error, flush=True)
                struck += ordeal.struck
    note = f"SIGKILL and SIGSTOP of holder, waiter and agent, at every step; {GPU}"
    return [
        Figure("faults_injected", struck, "", None, "higher", "simgpu", 1, None, note),
        Figure("faults_with_loss", lost, "", 0, "lower", "simgpu", 1, None, note),
    ]


def until(end_s: float, every: Iterator[Case]) -> Iterator[Case]:
    """One after the other until then, and one at least."""
    for case in every:
        yield case
        if time.monotonic() > end_s:
            return


def existing() -> Path:
    """Where the native libraries are; raises FileNotFoundError if they are not built."""
    native = native_dir()
    if native is None:
        raise FileNotFoundError("the native libraries are not built")
    return native


def growing() -> list[Figure]:
    """What tenants leave in the agent."""
    return [growth(existing())]


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
