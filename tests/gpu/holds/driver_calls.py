"""What programs do with the driver itself: recorded graphs, and thousands of launches."""

from __future__ import annotations

import json
import statistics

from moiety.testing.node import Node
from tests.gpu.holds.setting import Setting, said, script, turns, watch


def doctor(setting: Setting) -> str:
    """`moiety doctor` finds nothing bad on this machine."""
    with setting.node("doctor") as node:
        done = node.cli("doctor")
        assert done.returncode == 0, done.stdout + done.stderr
        warnings = [line for line in done.stdout.splitlines() if line.startswith("warn")]
        return f"{len(warnings)} warnings" + "".join(f"\n      {line}" for line in warnings)


def graphs(setting: Setting) -> str:
    """Graphs recorded once work after their memory has left and come back."""
    with setting.node("graphs") as node:
        rounds = setting.rounds(60)
        programs = [
            node.run(script("graphs.py", setting.each_bytes, rounds, seed)) for seed in (3, 5)
        ]
        most = watch(programs, lambda: turns(node))
        for program in programs:
            assert said(program) == "0 words wrong\n"
        assert most > 2, "nobody took turns"
        return f"{rounds} replays each, {most} turns"


def overhead(setting: Setting) -> str:
    """What the shim adds to calls of this driver (medians of pairs; nothing fails here)."""
    pairs = 1 if setting.quick else 5
    with setting.node("overhead") as node:
        samples = [(alone(node, setting), shared(node, setting)) for _ in range(pairs)]
    lines = []
    for call in samples[0][0]:
        before = statistics.median(first[call] for first, _ in samples)
        added = statistics.median(second[call] - first[call] for first, second in samples)
        lines.append(f"{call} {before:.0f} {added:+.0f} ns")
    return "; ".join(lines)


def alone(node: Node, setting: Setting) -> dict[str, float]:
    """Nanoseconds of each call without moiety."""
    found: dict[str, float] = json.loads(said(node.run_alone(command(setting))))
    return found


def shared(node: Node, setting: Setting) -> dict[str, float]:
    """Nanoseconds of each call under moiety."""
    found: dict[str, float] = json.loads(said(node.run(command(setting))))
    return found


def command(setting: Setting) -> list[str]:
    """The program that times the calls."""
    return script("launches.py", setting.library or "-", setting.rounds(60))
