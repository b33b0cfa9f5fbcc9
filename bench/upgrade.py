"""How long no agent decides while `moiety agent restart` upgrades it below programs that work.

Measured by the command itself: from asking the last agent to end until the next one has all
programs again. Programs that hold the GPU run on meanwhile; the others wait. Each program checks
every word at its end. simgpu is a stand-in for the driver: a real one takes longer to start.
"""

from __future__ import annotations

import json
import signal
import statistics
import tempfile
from pathlib import Path

from bench.figure import Figure
from demo import run as demo
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node, finish

GPU = "A100-80:memory=320MiB,residue=2MiB"
TENANTS = 20
BYTES = 60 << 20
RESTARTS = 5
OPTIONS = ("--turn-min", "5ms", "--idle-exit", "0")


def measure() -> list[Figure]:
    """The figure of `make bench`."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        pauses_s = paused(Path(name))
    note = (
        f"{TENANTS} programs at work, at most {max(pauses_s) * 1000:.0f} ms, on a stand-in driver"
    )
    value = statistics.median(pauses_s) * 1000
    return [Figure("upgrade_pause_ms", value, "ms", None, "lower", "simgpu", RESTARTS, note=note)]


def paused(folder: Path, tenants: int = TENANTS, restarts: int = RESTARTS) -> list[float]:
    """The pause of each restart, in seconds; raises RuntimeError if a program lost a byte."""
    _, commands = demo.build(folder, simulated=True)
    kernels = Path(str(simgpu_dir())) / "kernels.elf"
    with Node(folder, GPU) as node:
        told(node, "agent", "start", *OPTIONS)
        command = [*commands[0], kernels, BYTES, 1000000, 3, 0, 7, 50]
        running = [node.run(command) for _ in range(tenants)]
        node.until(lambda: len(node.json("ps")) == tenants, "all are there")
        found = []
        for _ in range(restarts):
            had = handoffs(node)
            node.until(lambda: handoffs(node) > had, "they take turns")  # noqa: B023
            found.append(float(json.loads(told(node, "agent", "restart", "-o", "json"))["pause_s"]))
        for each in running:
            each.send_signal(signal.SIGUSR1)
        for each in running:
            code, out, said = finish(each)
            if code or out != "0 words wrong\n":
                raise RuntimeError(f"a program ended with {code}: {out}{said}")
        told(node, "agent", "stop", "--force")
        return found


def handoffs(node: Node) -> int:
    """How often the programs have given the GPU away."""
    return sum(row["handoffs"] for row in node.json("ps"))


def told(node: Node, *words: str) -> str:
    """What a command says; raises RuntimeError if it fails."""
    done = node.cli(*words)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout
