"""What goes wrong, and what it costs: faults injected, and losses.

Processes, agent and shim are real, on simgpu; the schedules are the agent's node with simulated
processes in virtual time. Counts are those of this run, and `bench/soak.py` has larger ones. Each
part of it can be measured by itself: `bench/run.py faults_virtual`, `faults_real`.
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

from bench.figure import Figure
from moiety.model.errors import AgentError
from tests.support.chaos import live
from tests.support.fault_injection import GPU, Case, Ordeal, cases
from tests.support.fuzz import built, count
from tests.support.lying_shim import lie_for
from tests.support.native import compile_c, native_dir
from tests.support.virtual_agent import no_descriptor_stays

ROOT = Path(__file__).resolve().parents[1]
REAL_S = 30.0
FUZZ_S = 8
SCHEDULES = 500
LIES = 20_000
LIES_AT_A_TIME = 1000
AT_A_TIME = 25
"""Schedules that a process lives before it tells of them."""


def measure() -> list[Figure]:
    """All of it."""
    return [*virtual(), *lies(), *real()]


@dataclass
class Lived:
    """What became of some schedules."""

    faults: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    lost: list[str] = field(default_factory=list)
    """What did not hold, by seed."""


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


def virtual(schedules: int = SCHEDULES, bar: int | None = None, first: int = 0) -> list[Figure]:
    """Days in virtual time, in as many processes as there are processors; and fuzzing."""
    all_ = Lived()
    pieces = [
        range(day, min(day + AT_A_TIME, first + schedules))
        for day in range(first, first + schedules, AT_A_TIME)
    ]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as several:
        for part in several.map(lived, pieces):
            all_.faults += part.faults
            all_.messages += part.messages
            all_.lost += part.lost
            for each in part.lost:
                print(each, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        how = [str(built(Path(folder), ROOT)), str(first + 1), str(FUZZ_S)]
        done = subprocess.run(how, capture_output=True, text=True, check=True)
    sent = count(done.stdout)
    seeds = f"seeds {first} to {first + schedules - 1}"
    note = f"{seeds}; {all_.faults.total()} faults in them"
    told = f"{all_.messages} to the agent in those schedules, {sent} to the shim's connection"
    lost = f"of them; {seeds}"
    return [
        Figure("virtual_schedules", schedules, "", bar, "higher", "none", 1, None, note),
        Figure("virtual_schedules_lost", len(all_.lost), "", 0, "lower", "none", 1, None, lost),
        Figure("fuzz_messages", all_.messages + sent, "", None, "higher", "none", 1, None, told),
    ]


def told(seed: int) -> tuple[int, str]:
    """How many lies were told with this seed, and what one of them cost others; empty: nothing."""
    try:
        return lie_for(Random(seed), LIES_AT_A_TIME), ""
    except Exception as error:  # whatever the agent raises would have ended it
        return LIES_AT_A_TIME, f"seed {seed}: {error!r}"


def lies(messages: int = LIES, first: int = 0) -> list[Figure]:
    """Processes that say anything, beside honest programs of another user."""
    seeds = range(first, first + max(1, messages // LIES_AT_A_TIME))
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as several:
        done = list(several.map(told, seeds))
    costs = [text for _, text in done if text]
    for each in costs:
        print(each, flush=True)
    sent = sum(count for count, _ in done)
    note = f"seeds {first} to {seeds[-1]}; messages of liars of two users beside honest programs"
    return [
        Figure("lies_told", sent, "", None, "higher", "none", 1, None, note),
        Figure("lies_that_cost_others", len(costs), "", 0, "lower", "none", 1, None, note),
    ]


def real(seconds: float = REAL_S, seed: int = 1) -> list[Figure]:
    """Real processes, struck at every step of their hand-offs, for about so long."""
    native = existing()
    struck = lost = 0
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-ldl")
        worker = compile_c([ROOT / "demo" / "worker.c"], folder / "worker", flags=flags)
        left = until(time.monotonic() + seconds, cases(Random(seed)))
        while case := next(left, None):
            here = Path(tempfile.mkdtemp(dir=folder))
            with Ordeal(here, native, worker) as ordeal:  # a new one after each loss
                try:
                    while case:
                        ordeal.suffer(case)
                        case = next(left, None)
                except (AssertionError, AgentError) as error:  # or the agent stayed silent
                    lost += 1
                    print(error, flush=True)
                struck += ordeal.struck
    note = f"SIGKILL and SIGSTOP of holder, waiter and agent, at every step; seed {seed}; {GPU}"
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
