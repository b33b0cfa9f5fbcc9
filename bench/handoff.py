"""How fast a GPU changes hands when nothing has to move, or is given up when its holder is silent.

Each program says when it submitted what; the agent's timeline says when a lease was taken, given
back and granted, on the same clock. A hand-off is measured as whoever waits sees it: from its call
of the driver to the return of that call. The waiting program is of the latency class, so that no
turn of another is part of what is measured, and both ask for a part of the time, so that they take
turns although they fit.

The peer's published figures, on other hardware (149 us and at most 21 ms without work in the queue,
155 us and at most 41 ms with 20 us kernels; idle release after 5.0 s; a lone client interrupted
once in each quantum), stand in the notes.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.decision import decision_us
from bench.figure import Figure
from bench.wake import CHARGED
from moiety.agent.control.client import call
from moiety.agent.control.protocol import Recorded
from moiety.agent.system.paths import Directory
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish
from moiety.trace.recording import Recording
from tests.support.native import compile_c

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
LINK_BYTES_PER_S = 1_000_000_000
DATA_GPU = f"A100-80:memory=288MiB,link={LINK_BYTES_PER_S // 1_000_000}MB/s,residue=2MiB"
DATA_BYTES = 160 * MIB
CHUNK_BYTES = 2 * MIB
SECONDS = 8
LONE_S = 60
PAUSE_S = 0.004
"""How long the waiting program sleeps, and the agent with it."""
EXCHANGES = 500
NS = 1e-9
COUNTED = ("fired", "asked", "unread", "unarmed", "other")


class Said(NamedTuple):
    """What one program printed, in seconds."""

    calls: list[tuple[float, float]]
    silences: list[float]


class Handoff(NamedTuple):
    """One, in microseconds: the whole, and what it consists of."""

    whole_us: float
    drain_us: float
    wake_us: float

    @property
    def messages_us(self) -> float:
        """What is left: from the call to the revoke, and from the answer to the grant."""
        return self.whole_us - self.drain_us - self.wake_us


class Bench:
    """A node with an agent, on which programs run together."""

    def __init__(self, folder: Path, gpu: str) -> None:
        self.program = folder / "handoff"
        compile_c(
            [HERE / "native" / "handoff.c"],
            self.program,
            flags=(f"-I{HERE.parent / 'native'}", str(Path(str(simgpu_dir())) / "libcuda.so.1")),
        )
        self.node = Node(folder, gpu)
        self.counts: dict[str, int] = {}
        """What became of the messages that can change a lease, once an agent has ended."""
        self.env = {"KERNELS": str(Path(str(simgpu_dir())) / "kernels.elf")}

    def run(
        self, programs: Sequence[tuple[Sequence[str], str]], *options: str
    ) -> tuple[list[Said], Recording]:
        """Run programs, (options of `moiety run`, arguments), to their end, beside each other."""
        with self.node as node:
            served = node.start_agent("--linger", "60s", *options)
            running = []
            for own, arguments in programs:
                command = [self.program, *arguments.split()]
                running.append(node.run(command, *own, env=self.env))
                count = len(running)
                node.until(lambda: len(node.json("ps")) == count, "it is there")  # noqa: B023
            said = [heard(finish(process)) for process in running]
            recording = Recording()
            with call(Directory(node.directory)) as agent:
                recording.fetch(lambda request: agent.ask(request, Recorded))
            served.terminate()
            served.wait()
            self.counts = self._counted()
        return said, recording

    def _counted(self) -> dict[str, int]:
        """The counts that the last agent logged when it ended; empty without the native thread."""
        logs = [*self.node.folder.glob("agent-*.log"), *self.node.directory.rglob("*.log")]
        lines = [line for each in logs for line in each.read_text().splitlines()]
        ended = [line for line in lines if "ending" in line and "fired=" in line]
        return {
            name: int(count)
            for name, count in re.findall(r"(\w+)=(\d+)", ended[-1] if ended else "")
            if name in COUNTED
        }

    def run_alone(self, programs: Sequence[str]) -> list[Said]:
        """The same without moiety."""
        with self.node as node:
            node.env |= self.env
            running = [node.run_alone([self.program, *each.split()]) for each in programs]
            return [heard(finish(process)) for process in running]


def heard(ended: tuple[int, str, str]) -> Said:
    """What a program said, if it ended well."""
    code, out, err = ended
    if code:
        raise RuntimeError(f"the program ended with {code}: {err}")
    lines = [line.split() for line in out.splitlines()]
    return Said(
        [
            (int(a) * NS, int(b) * NS)
            for kind, a, b in (x for x in lines if len(x) == 3)
            if kind == "L"
        ],
        [int(line[1]) * NS for line in lines if line[0] == "S"],
    )


def handoffs(waiter: Said, recording: Recording) -> list[Handoff]:
    """Every call of the waiter that had to wait until the other one had drained."""
    first, second = sorted(recording.tenants)[:2]
    drains = sorted(
        (s.begin_s, s.end_s) for s in recording.spans if (s.kind, s.tenant) == ("draining", first)
    )
    grants = sorted(
        s.begin_s for s in recording.all_spans if (s.kind, s.tenant) == ("held", second)
    )
    begins = [begin_s for begin_s, _ in drains]
    found = []
    for began_s, ended_s in waiter.calls:
        at = bisect_left(begins, began_s)
        granted = bisect_left(grants, began_s)
        if at == len(drains) or granted == len(grants):
            continue
        (revoked_s, drained_s), granted_s = drains[at], grants[granted]
        if drained_s <= granted_s <= ended_s:
            found.append(
                Handoff(
                    (ended_s - began_s) * 1e6,
                    (drained_s - revoked_s) * 1e6,
                    (ended_s - granted_s) * 1e6,
                )
            )
    return found


def percentile(values: Sequence[float], part: float) -> float:
    """The value that this part of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def split(found: Sequence[Handoff]) -> str:
    """Where the time of a median hand-off goes."""
    parts = [
        statistics.median(getattr(f, f"{name}_us") for f in found)
        for name in ("drain", "messages", "wake")
    ]
    return "drain {:.0f}, messages {:.0f}, wake-up {:.0f} us".format(*parts)


def pair(name: str, holder: str, bars: tuple[float, float], note: str) -> list[Figure]:
    """Median and 99th percentile of the hand-off from such a holder to one that sleeps."""
    waiter = f"kernel=20 sleep={PAUSE_S * 1e6:.0f} seconds={SECONDS}"
    holder = f"{holder} least=1000000 seconds={SECONDS + 2}"
    with tempfile.TemporaryDirectory(prefix="mty") as folder:
        said, recording = Bench(Path(folder), GPU).run(
            [(["--gpu", "0.6"], holder), (["--gpu", "0.3", "--latency"], waiter)]
        )
        found = handoffs(said[1], recording)
    with tempfile.TemporaryDirectory(prefix="mty") as folder:
        alone = Bench(Path(folder), GPU).run_alone([holder, waiter])[1]
    plain = [(end_s - begin_s) * 1e6 for begin_s, end_s in alone.calls]
    times = [f.whole_us for f in found]
    values = {"median": statistics.median(times), "p99": percentile(times, 0.99)}
    baselines = {"median": statistics.median(plain), "p99": percentile(plain, 0.99)}
    warm_us, cold_us = decision_us(0), decision_us(PAUSE_S)
    why = (
        f"of which deciding the leases is {cold_us[0]:.0f} after a sleep, {warm_us[0]:.0f} without "
        f"one ({cold_us[1]:.0f} and {warm_us[1]:.0f} with what follows them); four bare messages "
        f"between C programs: {exchange_us(PAUSE_S):.0f}, {exchange_us(0):.0f}"
    )
    return [
        Figure(
            f"{name}_{which}_us",
            values[which],
            "us",
            bar,
            "lower",
            "simgpu",
            len(times),
            baselines[which],
            f"{split(found)}, {why}; {note}; profile {GPU}; baseline: the same call without moiety",
        )
        for which, bar in zip(("median", "p99"), bars, strict=True)
    ]


def exchange_us(pause_s: float) -> float:
    """The median of a hand-off's four messages between programs that decide nothing."""
    with tempfile.TemporaryDirectory(prefix="mty") as folder:
        program = Path(folder) / "exchange"
        compile_c([HERE / "native" / "exchange.c"], program, flags=(f"-I{HERE.parent / 'native'}",))
        command = [str(program), f"pause={pause_s * 1e6:.0f}", f"times={EXCHANGES}"]
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return statistics.median(map(float, said.stdout.split()))


def released(gpu: str, memory: str) -> tuple[list[float], list[float]]:
    """How long who waits still waits, in seconds, after its rival fell silent; and the silences.

    In charged time: looking for zeros, hashing and copying take what they take on the card.
    """
    one = f"{memory} charged=1 kernel=500 on=400 off=600 least=1000000 seconds={SECONDS + 4}"
    other = f"{memory} charged=1 kernel=500 least=1000 seconds={SECONDS + 2}"
    with tempfile.TemporaryDirectory(prefix="mty") as folder:
        # A turn is longer than a row of work: all that ends it is the silence.
        bench = Bench(Path(folder), f"{gpu},{CHARGED}")
        said, _ = bench.run([([], one), ([], other)], "--quantum", "1s")
    waits = []
    for silent_s in said[0].silences:
        for began_s, ended_s in said[1].calls:
            if began_s < silent_s < ended_s < silent_s + 0.6:
                waits.append(ended_s - silent_s)
    return waits, said[0].silences


def idle_release() -> list[Figure]:
    """How long a silent holder keeps the GPU from who waits, with and without data to move."""
    each = (capacity_bytes(GPU) // 2 // CHUNK_BYTES + 1) * CHUNK_BYTES
    waits, _ = released(GPU, f"bytes={each} zeros=1")  # both just do not fit; nothing is copied
    moved, _ = released(DATA_GPU, f"bytes={DATA_BYTES}")
    deficit = 2 * DATA_BYTES - capacity_bytes(DATA_GPU)
    predicted_s = 2 * deficit / LINK_BYTES_PER_S
    ratio = statistics.median(moved) / (2 * predicted_s)
    return [
        Figure(
            "idle_release_ms",
            statistics.median(waits) * 1e3,
            "ms",
            20,
            "lower",
            "simgpu",
            len(waits),
            5000.0,
            f"from the end of the holder's last kernel; longest {max(waits) * 1e3:.1f} ms; "
            f"charged time; profile {GPU}; baseline: the peer's rule",
        ),
        Figure(
            "idle_release_data_ratio",
            ratio,
            "",
            1.2,
            "lower",
            "simgpu",
            len(moved),
            5.0 / (2 * predicted_s),
            f"{deficit // MIB} MiB out and in at {LINK_BYTES_PER_S / 1e9:g} GB/s: predicted "
            f"{predicted_s * 1e3:.0f} ms, waited {statistics.median(moved) * 1e3:.0f} ms "
            f"(longest {max(moved) * 1e3:.0f}); charged time; profile {DATA_GPU}; "
            "baseline: the peer's rule (5 s)",
        ),
    ]


def capacity_bytes(gpu: str) -> int:
    """What tenants' data may take of such a card."""
    with tempfile.TemporaryDirectory(prefix="mty") as folder, Node(Path(folder), gpu) as node:
        node.start_agent()
        return int(node.json("status")["gpus"][0]["capacity_bytes"])


def lone(seconds: int) -> Figure:
    """How often a program is interrupted for whom nobody waits, with pauses and with a share."""
    arguments = f"kernel=200 row=8 sleep=3000 least=1000000 seconds={seconds}"
    with tempfile.TemporaryDirectory(prefix="mty") as folder:
        _, recording = Bench(Path(folder), GPU).run([(["--gpu", "0.5"], arguments)])
    count = sum(span.kind == "draining" for span in recording.spans)
    return Figure(
        "lone_interruptions",
        count,
        "",
        0,
        "lower",
        "simgpu",
        1,
        float(seconds // 30),
        f"in {seconds} s; baseline: the peer's rule, once in each quantum (30 s)",
    )


def measure(lone_s: int = LONE_S) -> list[Figure]:
    """All of them; `lone_s` is how long the lone program runs."""
    return [
        *pair("handoff", "kernel=20 sleep=4000", (150, 1000), "the peer: 149 us, at most 21 ms"),
        *pair("handoff_busy", "kernel=20 row=2048", (200, 4000), "the peer: 155 us, at most 41 ms"),
        *idle_release(),
        lone(lone_s),
    ]
