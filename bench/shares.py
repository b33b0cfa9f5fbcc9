"""How far the parts of a GPU's time that programs receive lie from those they asked for.

Programs that always have work, on simgpu, with the default settings. What counts is what the agent
charges: GPU-seconds, with the hand-offs that each causes. The baseline is the same without any
share: equal parts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure
from demo import run as demo
from moiety.devices.native import simgpu_dir
from moiety.testing.node import Node

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
SMALL, LARGE = 16 << 20, 60 << 20
"""What each allocates: small ones fit together, no two large ones do."""
SETTLE_S, WINDOW_S = 1.0, 10.0
SPLITS = ((0.3, 0.7), (0.1, 0.9), (0.2, 0.3, 0.5))


def received(node: Node) -> list[float]:
    """The part of the GPU that each tenant receives in one window, by its number."""

    def so_far() -> tuple[float, list[float]]:
        rows = sorted(node.json("ps"), key=lambda row: row["tenant"])
        return time.monotonic(), [row["received_s"] for row in rows]

    time.sleep(SETTLE_S)
    began_s, before = so_far()
    time.sleep(WINDOW_S)
    ended_s, after = so_far()
    return [(b - a) / (ended_s - began_s) for a, b in zip(before, after, strict=True)]


def parts(
    options: Sequence[Sequence[str]], size: int, later: Sequence[Sequence[str]] = ()
) -> list[list[float]]:
    """What programs started with these options receive, and once more after `later` was set."""
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        _, commands = demo.build(folder, simulated=True)
        kernels = Path(str(simgpu_dir())) / "kernels.elf"
        with Node(folder, GPU) as node:
            node.start_agent()
            for seed, own in enumerate(options):
                command = [*commands[0], kernels, size, 1000000, 2, 0, seed]
                node.run(command, *own)
                node.until(lambda seed=seed: len(node.json("ps")) == seed + 1, "it is there")  # type: ignore[misc]
            found = [received(node)]
            if later:
                tenants = sorted(row["tenant"] for row in node.json("ps"))
                for tenant, own in zip(tenants, later, strict=True):
                    done = node.cli("set", str(tenant), *own)
                    if done.returncode != 0:
                        raise RuntimeError(done.stderr)
                found.append(received(node))
            return found


def error_points(found: Sequence[float], asked: Sequence[float]) -> float:
    """The largest distance, in points of a hundred."""
    return max(abs(part - want) for part, want in zip(found, asked, strict=True)) * 100


def asking(split: Sequence[float]) -> list[list[str]]:
    """The options that ask for these parts."""
    return [["--gpu", str(part)] for part in split]


def figure(name: str, value: float, baseline: float, samples: int, note: str) -> Figure:
    """One of them, with the bar that all have."""
    return Figure(name, value, "points", 3, "lower", "simgpu", samples, baseline, note)


def measure() -> list[Figure]:
    """Three splits, when all fit and when no two do, a live change, and one held to its half."""
    errors: dict[str, float] = {}
    for size, fits in ((SMALL, "fit"), (LARGE, "do not fit")):
        for split in SPLITS:
            later = asking(SPLITS[1]) if split == SPLITS[0] else ()
            found = parts(asking(split), size, later)
            text = "/".join(f"{part * 100:.0f}" for part in split)
            errors[f"{text} {fits}"] = error_points(found[0], split)
            if later:
                errors[f"then 10/90 live {fits}"] = error_points(found[1], SPLITS[1])
    unasked = parts([[], []], LARGE)[0]
    limited = error_points(parts([["--gpu-limit", "0.5"]], SMALL)[0], [0.5])
    free = error_points(parts([[]], SMALL)[0], [0.5])
    note = "; ".join(f"{what} {error:.1f}" for what, error in errors.items())
    baseline = max(error_points(unasked, split) for split in SPLITS[:2])
    return [
        figure("share_error_points", max(errors.values()), baseline, len(errors), note),
        figure("share_limit_error_points", limited, free, 1, "one alone, limit 0.5"),
    ]
