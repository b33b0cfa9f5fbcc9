"""How long the first eviction of a program takes, when its host memory has to be there at once.

A program fills nearly all of a small simulated GPU; then another asks for as much, so that all of
the first one has to leave. The baseline is the same with an agent that prepares no host memory
(`--arena-ready 0`): the shim then maps and registers its own while the eviction waits.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from bench.figure import Figure
from demo import run as demo
from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.control.rows import Span
from moiety.agent.system.paths import Directory
from moiety.devices.interface import uuid_bytes
from moiety.devices.native import simgpu_dir
from moiety.model.share import Share
from moiety.testing.node import Node
from tests.support.wire_fakes import Shim

PROFILE = "A100-80:memory=192MiB,link=8GB/s"
SIZE = 160 << 20
ROUNDS = 5
SETTLE_S = 1.0
"""What the program's own thread takes to register what it was lent."""


def join(node: Node) -> Shim:
    """A process that has attached the GPU and allocated nothing."""
    with Call(Directory(node.directory)) as call:
        wanted = protocol.CreateWorkload("other", ["other"], os.getcwd(), Share())
        path = call.ask(wanted, protocol.Created).socket
        (gpu,) = call.ask(protocol.Status(), protocol.NodeStatus).gpus
    shim = Shim(path)
    shim.hello("other")
    shim.attach(uuid_bytes(gpu.uuid))
    return shim


def evicting(node: Node) -> list[Span]:
    """The evictions that have ended."""
    with Call(Directory(node.directory)) as call:
        spans = call.ask(protocol.TimelineRequest(), protocol.Recorded).spans
    return [span for span in spans if span.kind == "evicting"]


def first_evict(prepared: bool) -> tuple[float, int]:
    """Seconds from the order until all had left, and the bytes."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        _, commands = demo.build(folder, simulated=True)
        kernels = Path(str(simgpu_dir())) / "kernels.elf"
        with Node(folder, PROFILE) as node:
            node.start_agent("--arena", "1GiB", *([] if prepared else ["--arena-ready", "0"]))
            node.run([*commands[0], kernels, SIZE, 1_000_000, 1, 20, 1])
            node.until(
                lambda: any(row["allocated_bytes"] >= SIZE for row in node.json("ps")), "it is full"
            )
            shim = join(node)
            if prepared:
                node.until(
                    lambda: node.json("status")["arena_ready_bytes"] > SIZE, "the arena is ready"
                )
                time.sleep(SETTLE_S)
            shim.alloc(0, SIZE - (8 << 20))
            node.until(lambda: bool(evicting(node)), "it has left")
            (span, *_) = evicting(node)
            shim.close()
    return span.end_s - span.begin_s, span.bytes


def measure() -> list[Figure]:
    """Both ways in turn, several times: medians."""
    with_arena, without = [], []
    moved = 0
    for _ in range(ROUNDS):
        seconds, moved = first_evict(prepared=True)
        with_arena.append(seconds * 1000)
        seconds, _ = first_evict(prepared=False)
        without.append(seconds * 1000)
    link_ms = moved / 8e9 * 1000
    return [
        Figure(
            "first_evict_ms",
            statistics.median(with_arena),
            "ms",
            None,
            "lower",
            "simgpu",
            ROUNDS,
            statistics.median(without),
            f"{moved >> 20} MiB, {link_ms:.0f} ms of them on the link; baseline: own mapping; "
            f"{PROFILE}",
        )
    ]
