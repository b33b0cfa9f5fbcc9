"""A program whose memory leaves and comes back, and the agent that a test plays for it.

with starting(make_node, native, tmp_path) as start:
    program = start(24)                   # a piece of 24 MiB
    assert program.turn() == 48 * MIB     # bytes copied while all of it left and came back
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from moiety.testing.node import Node
from moiety.wire.layout import EvictedFlag
from moiety.wire.messages import EvictedMessage
from tests.support.native import compile_c
from tests.support.played_agent import (
    ALL,
    DEADLINE_S,
    next_line,
    order,
    restore,
    until_evicted,
)
from tests.support.wire_fakes import FakeAgent

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
GPU = "A100-80:memory=256MiB,residue=1MiB"


class Program:
    """tests/native/programs/shim_clean.c, and the agent that the test plays for it."""

    def __init__(self, agent: FakeAgent, process: subprocess.Popen[str]) -> None:
        self.agent, self.process = agent, process

    def said(self) -> str:
        """The program's next line, while the agent answers it."""
        return next_line(self.agent, self.process)

    def tell(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.said()

    def copied(self) -> int:
        """Bytes that the shim and the program have copied so far."""
        return int(self.tell("count"))

    def evict(self, size: int = ALL) -> tuple[int, EvictedMessage]:
        """What left, and the last word on it."""
        order(self.agent, size)
        return until_evicted(self.agent)

    def restore(self) -> None:
        restore(self.agent)

    def turn(self, size: int = ALL) -> int:
        """Give way and come back; returns the bytes that were copied in both directions."""
        before = self.copied()
        self.agent.revoke()
        left, last = self.evict(size)
        assert not last.flags & EvictedFlag.FAILED
        assert left >= min(size, 1)
        self.restore()
        self.agent.grant()
        return self.copied() - before

    def end(self) -> str:
        """What it wrote to stderr, once it has ended well."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        deadline_s = time.monotonic() + DEADLINE_S
        try:
            while self.process.poll() is None:
                assert time.monotonic() < deadline_s, "the program hangs"
                self.agent.hear(0.01)
        except (EOFError, ConnectionError):
            pass
        assert self.process.stderr is not None
        told = self.process.stderr.read()
        assert self.process.wait(DEADLINE_S) == 0, told
        return told


Start = Callable[..., Program]


@contextlib.contextmanager
def starting(make_node: Callable[[str], Node], native: Path, folder: Path) -> Iterator[Start]:
    """A function that starts the program with pieces of so many MiB."""
    driver = str(native / "simgpu" / "libcuda.so.1")
    program = compile_c(
        [ROOT / "tests" / "native" / "programs" / "shim_clean.c"],
        folder / "shim_clean",
        flags=(f"-I{ROOT / 'native'}", driver, "-ldl"),
    )
    agents: list[FakeAgent] = []

    def begin(
        *sizes: int,
        clean: str | None = None,
        chunk_bytes: int = 2 * MIB,
        simgpu: Path | None = None,
        gpu: str = GPU,
    ) -> Program:
        node = make_node(gpu)
        path = node.directory / "shim.sock"
        agents.append(FakeAgent(path, chunk_bytes=chunk_bytes))
        process = node.start(
            [str(program), *map(str, sizes)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(simgpu or native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
                "MOIETY_SIMGPU_POISON": "1",
                **({"MOIETY_CLEAN": clean} if clean else {}),
            },
        )
        agents[-1].accept()
        begun = Program(agents[-1], process)
        assert begun.said() == "ready"
        return begun

    try:
        yield begin
    finally:
        for agent in agents:
            agent.__exit__(None, None, None)
