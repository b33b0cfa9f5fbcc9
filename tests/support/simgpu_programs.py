"""Programs that use the stand-in driver: run to their end, or told line by line what to do."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from moiety.testing.waiting import DEADLINE_S

MIB = 1 << 20
Build = Callable[[str], Path]


def run(program: Path, env: dict[str, str], *args: object) -> str:
    """What a program writes; it must end well."""
    done = subprocess.run(
        [program, *map(str, args)], env=env, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Holder:
    """A process that holds GPU memory until it is told to end."""

    def __init__(self, program: Path, env: dict[str, str], *args: object) -> None:
        """Start it, and wait for its first line."""
        self.process = subprocess.Popen(
            [program, *map(str, args)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.said = self.process.stdout.readline().split()

    @property
    def free_bytes(self) -> int:
        """What was free on the GPU once it held its part."""
        return int(self.said[0])

    def end(self) -> None:
        """Let it end by itself."""
        self.process.communicate(timeout=DEADLINE_S)

    def kill(self) -> None:
        """End it without a chance to clean up."""
        os.kill(self.process.pid, signal.SIGKILL)
        # Not waited for yet: a zombie must not count either.
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


class Keeper(Holder):
    """A process that takes, fills and frees GPU memory as it is told."""

    def say(self, line: str) -> str:
        """Tell it something, and hear its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def use(self, size: int) -> None:
        """Let it fill memory of this size and free it."""
        for line in (f"take {size}", "fill", "free"):
            assert self.say(line)

    @property
    def host_bytes(self) -> int:
        """What its GPU memory takes of the host's."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        files = [one for one in folder.iterdir() if "simgpu-memory" in str(one.readlink())]
        return sum(one.stat().st_blocks * 512 for one in files)
