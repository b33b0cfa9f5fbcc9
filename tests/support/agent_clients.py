"""Processes of a real agent: the test's own, and others beside it that are driven line by line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moiety.wire.layout import Type
from tests.support.foreground import AgentProcess, uuid_of
from tests.support.wire_fakes import Shim

GIB = 1 << 30
CARD = 16 * GIB
ARGUMENTS = ["--turn-min", "1ms", "--linger", "0", "--arena", "64GiB"]
Shims = Callable[[str], Shim]
"""The test's own processes, each of the workload with this socket."""


@contextmanager
def connecting() -> Iterator[Shims]:
    """Processes that are gone in the end."""
    made: list[Shim] = []

    def make(path: str) -> Shim:
        made.append(Shim(path))
        return made[-1]

    yield make
    for shim in made:
        shim.close()


class Other:
    """A process beside the test's own that speaks the protocol, driven line by line."""

    SOURCE = """
import sys
from tests.support.wire_fakes import Shim
from tests.support.foreground import uuid_of
from moiety.wire.layout import Type
shim = Shim(sys.argv[1])
shim.hello("other")
for line in sys.stdin:
    found = eval(line)
    print(found if found is not None else "done", flush=True)
"""

    def __init__(self, path: str) -> None:
        """Start it; it greets the agent."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.SOURCE, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.pid = self.process.pid

    def tell(self, line: str) -> None:
        """Let it do something; `listen` hears the result."""
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def listen(self) -> str:
        """What came of the oldest line that was not listened to."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def do(self, line: str) -> str:
        """Let it do something, and hear the result."""
        self.tell(line)
        return self.listen()

    def kill(self) -> None:
        """End it, if it is still there."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


Others = Callable[[str], Other]
"""Processes beside the test's own."""


@contextmanager
def starting() -> Iterator[Others]:
    """Processes that are killed in the end, if they are still there."""
    made: list[Other] = []

    def make(path: str) -> Other:
        made.append(Other(path))
        return made[-1]

    yield make
    for other in made:
        other.kill()


def joined(shims: Shims, agent: AgentProcess, used: int = 0) -> Shim:
    """A process on GPU 0 that holds the lease and `used` bytes."""
    shim = shims(agent.workload())
    shim.hello()
    shim.attach(uuid_of(0))
    if used:
        shim.allocated(0, used)
    else:
        shim.want()
    shim.expect(Type.GRANT)
    return shim
