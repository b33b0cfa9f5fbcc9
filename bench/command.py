"""What a command costs before it does anything: the processor time of `moiety run -- true`.

And that of `moiety version`, which is the start of every command. Beside both, in turns in one run,
stands `python -c pass`: its time says how much slower a busy machine makes any processor time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.figure import Figure, table
from moiety.testing.node import Node

GPU = "A100-80:memory=96MiB,residue=2MiB"
SAMPLES = 15
COMMANDS = {
    "pass": ["-c", "pass"],
    "version": ["-m", "moiety", "version"],
    "run": ["-m", "moiety", "run", "--quiet", "--", "true"],
}


def cpu_ms(arguments: list[str], environment: Mapping[str, str]) -> float:
    """The processor time of one Python, until it and what it becomes have ended.

    Raises RuntimeError if it failed.
    """
    with subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments} ended with {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1e3


def measure() -> list[Figure]:
    """Both commands and the bare interpreter, in turns, with an agent that runs already."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory(prefix="mty") as name, Node(Path(name), GPU) as node:
        node.start_agent()
        for arguments in COMMANDS.values():
            cpu_ms(arguments, node.env)  # the compiled modules are there from now on
        for _ in range(SAMPLES):
            for command, arguments in COMMANDS.items():
                found[command].append(cpu_ms(arguments, node.env))
    bare = statistics.median(found["pass"])
    return [
        Figure(
            name,
            statistics.median(found[command]),
            "ms",
            bar,
            "lower",
            "simgpu",
            SAMPLES,
            bare,
            f"{statistics.median(found[command]) / bare:.1f} times python -c pass, "
            f"best {min(found[command]):.0f} ms",
        )
        for name, command, bar in (("run_cpu_ms", "run", 120), ("cli_start_ms", "version", 90))
    ]


if __name__ == "__main__":
    print(table(measure()))
