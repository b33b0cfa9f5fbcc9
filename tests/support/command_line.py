"""The `moiety` command as a user has it: whole processes, and an agent that it starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from moiety.agent.system.file_lock import is_held
from moiety.testing.waiting import DEADLINE_S, until
from tests.support.foreground import AgentProcess


class Cli:
    """The `moiety` command in surroundings of its own."""

    def __init__(self, folder: Path, native: Path) -> None:
        """An agent that it starts will be in `folder`."""
        self.agent = AgentProcess(folder / "a", native)
        self.environment = self.agent.environment | {
            "MOIETY_AGENT_ARGS": "--idle-exit 2min --linger 0",
            "NO_COLOR": "1",
        }

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [sys.executable, "-m", "moiety", *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Run it beside the test."""
        return subprocess.Popen(
            [sys.executable, "-m", "moiety", *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def is_served(self) -> bool:
        """Whether there is an agent."""
        return self.agent.directory.control.exists()

    def end(self) -> None:
        """Stop the agent, whoever uses it, and wait for its end."""

        def gone() -> bool:
            if self.is_served:
                self("agent", "stop", "--force")
            return not is_held(self.agent.directory.supervisor_lock)

        until(gone, "the end of the agent")
