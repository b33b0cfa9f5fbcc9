"""What every check has: a node on the first GPU, or on a simulated one, and programs for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from moiety.testing.node import Node, finish

MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
SIMGPU = "A100-80:memory=320MiB,link=4GB/s"
SHARE = 0.75
"""of the capacity, wanted by each of several programs"""

Running = subprocess.Popen[str]


class Skip(Exception):
    """There is nothing to check here; the reason."""


@dataclass(frozen=True)
class Setting:
    """Where and with what the checks run."""

    folder: Path
    simulated: bool
    quick: bool
    capacity_bytes: int
    kernels: Path
    workers: list[list[str]]
    """programs that check every word of their memory, as commands without arguments"""
    arena: str = ""
    """host memory for what was evicted, as the agent takes it; empty: as it finds fit"""
    library: str = ""
    """calls.c, compiled; empty: there is no compiler"""

    @property
    def each_bytes(self) -> int:
        """What each program wants."""
        return int(self.capacity_bytes * SHARE) // 8 * 8

    def rounds(self, number: int) -> int:
        """So many, or a third in a quick run."""
        return max(number // 3, 2) if self.quick else number

    def environment(self) -> dict[str, str]:
        """Of a program of ours that chooses its GPU by itself: the real one."""
        hidden = ("MOIETY_SIMGPU", "MOIETY_SIMGPU_STATE")
        return {key: value for key, value in os.environ.items() if key not in hidden}

    @contextmanager
    def node(self, name: str) -> Iterator[Node]:
        """A node with its agent. What its agent said is added to an error."""
        folder = self.folder / name
        folder.mkdir()
        with Node(folder, SIMGPU if self.simulated else None) as node:
            try:
                self.start_agent(node)
                yield node
            except Exception as error:
                for log in sorted(folder.glob("agent-*.log")):
                    error.add_note(f"{log.name}: {log.read_text()[-1500:]}")
                raise

    def start_agent(self, node: Node) -> None:
        """With the lowered capacity, and turns that are short enough to see several."""
        arena = ["--arena", self.arena] if self.arena else []
        node.start_agent("--capacity", str(self.capacity_bytes), "--turn-min", "50ms", *arena)

    def worker(self, number: int, size: int, rounds: int, gpu_ms: int = 20) -> list[str]:
        """The command of one of the programs, with a seed of its own."""
        command = self.workers[number % len(self.workers)]
        return [*command, str(self.kernels), *map(str, (size, rounds, gpu_ms, 0, number))]


def script(name: str, *arguments: object) -> list[str]:
    """The command of one of our Python programs."""
    return [sys.executable, str(PROGRAMS / name), *map(str, arguments)]


def said(program: Running) -> str:
    """What a program printed; an AssertionError with its complaint if it failed."""
    code, out, err = finish(program)
    assert code == 0, f"ended with {code}: {out[-500:]}{err[-1500:]}"
    return out


def said_alone(node: Node, command: Sequence[str]) -> str:
    """What a program prints without moiety.

    Raises:
        Skip: it does not run here even so.
    """
    code, out, err = finish(node.run_alone(command))
    if code:
        last = (err.strip() or out.strip()).splitlines()[-1:]
        raise Skip(f"does not run here without moiety either: {' '.join(last)[:200]}")
    return out


def turns(node: Node) -> int:
    """Leases so far of those that are there now."""
    return sum(row["handoffs"] for row in node.json("ps"))


def watch(programs: Sequence[Running], seen: Callable[[], int]) -> int:
    """The most that `seen` said until all programs have ended."""
    most = 0
    while any(program.poll() is None for program in programs):
        most = max(most, seen())
        time.sleep(0.05)
    return most
