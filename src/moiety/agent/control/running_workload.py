"""One workload of an agent: its record, its socket, and the processes that it has now."""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from moiety.agent.control.records import Record, connected, socket_in, write_whole
from moiety.agent.core.clients import Clients
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.time_owners import owner_of
from moiety.agent.system import processes
from moiety.model.share import Share


@dataclass(slots=True, eq=False)
class RunningWorkload:
    """One workload of this agent."""

    record: Record
    folder: str
    """A text, since a `Path` interns every name in it, and interned names stay in memory."""
    listener: socket.socket
    root_pidfd: int
    """-1 once its first process is gone."""
    began_s: float = -math.inf
    """When it was created, in seconds on the loop's clock; long ago if by an earlier agent."""
    promised_s: float = field(init=False)
    """When its share was promised, or was raised last."""
    clients: set[int] = field(default_factory=set)
    """Numbers of its tenants."""
    has_used: bool = False
    """True once a process of it was a tenant; after a restart also where that is not known."""
    account: int = -1
    """The user who accounts for its user."""

    def __post_init__(self) -> None:
        self.promised_s = self.began_s

    @property
    def socket(self) -> str:
        """The path at which its processes find the agent."""
        return socket_in(self.folder, self.record)

    @property
    def owner(self) -> str:
        """Whose time its processes use."""
        return owner_of(self.account, self.record.labels)

    @property
    def cards(self) -> list[str]:
        """UUIDs of the GPUs that are kept for it; empty: none in particular."""
        return self.record.chosen or self.record.gpus

    def joined(self, number: int) -> None:
        """A process of it is a tenant, or has been one."""
        self.clients.add(number)
        self.has_used = True

    def save(self, record: Record) -> None:
        """Change its record, also for agents that follow; raises OSError, but changed it is."""
        self.record = record
        write_whole(f"{self.folder}/workload.json", msgspec.json.encode(record))

    def promise(self, record: Record, now_s: float) -> None:
        """As `save`, with a share that may guarantee more from now on; raises OSError."""
        if not record.share.guarantees_within(self.record.share):
            self.promised_s = now_s
        self.save(record)

    def note(self, record: Record, log: Any) -> None:
        """As `save`; where the disk is full, the next agent has the record before."""
        try:
            self.save(record)
        except OSError as error:
            log.warning("record_not_written", problem=str(error))

    def settled(self) -> Record:
        """Its record once the GPUs that are kept for it are those that it may use."""
        return msgspec.structs.replace(self.record, gpus=self.record.chosen, chosen=[])

    def visible(self, whole: Sequence[str]) -> tuple[str, ...]:
        """UUIDs of what its programs see: of these GPUs, in their order, and of parts of GPUs."""
        only = self.record.gpus
        parts = [uuid for uuid in only if uuid not in whole]
        return (*(uuid for uuid in whole if not only or uuid in only), *parts)

    def open_to(self, gpus: Gpus) -> tuple[str, ...]:
        """UUIDs of the GPUs that its next process may use; empty: any.

        A share for containers that is of no GPU in particular avoids drained ones, and so does a
        program that has not looked at its GPUs.
        """
        only = self.record.gpus
        if not (self.record.chosen or (self.stays and not only)):
            return tuple(only)
        may = [gpu for _, gpu in sorted(gpus.items()) if not only or gpu.device.uuid in only]
        found = tuple(gpu.device.uuid for gpu in may if not gpu.is_drained)
        return found if len(found) < len(gpus) else ()

    @property
    def is_alive(self) -> bool:
        """Whether any process of it is there."""
        return self.root_pidfd >= 0 or bool(self.clients)

    @property
    def is_kept(self) -> bool:
        """Whether the agent that follows takes it over; some of its processes may be stopped."""
        return self.is_alive or self.stays or bool(connected(self.record, Path(self.folder)))

    def is_over(self, clients: Clients) -> bool:
        """Whether none of its processes is there, or may still come back from the last agent."""
        return not self.is_alive and not any(
            clients.is_awaited(each.pid) for each in connected(self.record, Path(self.folder))
        )

    @property
    def stays(self) -> bool:
        """Whether it is there without any process, until it is removed."""
        return bool(self.record.container)


def is_unbounded(record: Record, peer: processes.Peer, agent: int) -> bool:
    """Whether a process may take more of the agent than one user may: an administrator's may.

    A process in a container may not, even if an administrator made its share, and although its root
    may be root here; nor may an administrator's process in the workload of a user.
    """
    is_admins = processes.may_use(peer, agent) and record.uid in (0, agent)
    return is_admins and not record.container


def as_promised(workload: RunningWorkload) -> Share:
    """The share of a workload as it was asked for."""
    return workload.record.share
