"""Where the files of a pool lie: beside those of its agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.agent.system.paths import Directory, find

POOL: Final = "pool"


@dataclass(frozen=True, slots=True)
class PoolPaths:
    """The paths of the pool of one agent."""

    agent: Directory

    @property
    def folder(self) -> Path:
        """What outlives a restart of the machine."""
        return self.agent.state / POOL

    @property
    def socket(self) -> Path:
        """Where the API listens; for all users in a folder of the server's own."""
        if self.agent.shared:
            return self.agent.path / "api" / "pool.sock"
        return self.agent.path / "pool.sock"

    @property
    def starter(self) -> Path:
        """Where the root part of a machine's pool listens, for the server alone."""
        return self.agent.path / "starter.sock"

    @property
    def cgroups(self) -> Path:
        """What the root part says that its workloads' cgroups can."""
        return self.agent.path / "cgroups"

    @property
    def starter_log(self) -> Path:
        """What the root part says when it cannot begin."""
        return self.agent.logs / "starter.log"

    @property
    def lock(self) -> Path:
        """Held by the one process that writes to the store."""
        return self.folder / "lock"

    @property
    def database(self) -> Path:
        """The store."""
        return self.folder / "pool.db"

    @property
    def log(self) -> Path:
        """What the server says; of a machine's pool it lies where only root can make files."""
        if self.agent.shared:
            return self.agent.logs / "pool.log"
        return self.folder / "server.log"

    @property
    def workloads(self) -> Path:
        """A folder for each workload: what its supervisor writes."""
        return self.folder / "workloads"

    @property
    def spool(self) -> Path:
        """A folder for each job that has a script, which its user may use."""
        return self.socket.parent / "spool"

    def spool_of(self, number: int) -> Path:
        """The folder of one job."""
        return self.spool / str(number)

    def of_workload(self, number: int) -> Path:
        """The folder of one workload."""
        return self.workloads / str(number)


def pool_paths(which: str | None = None) -> PoolPaths:
    """The pool of the agent that is meant, as of `moiety run`; raises BadSetting."""
    return PoolPaths(find(which))
