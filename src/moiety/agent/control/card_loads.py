"""What is on each GPU at one moment: counted once, and kept up to date while GPUs are chosen.

One sweep over the workloads counts all GPUs, so that a choice for each of many workloads costs no
more than one look at each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus
from moiety.arbiter.admission.guarantees import Promised


@dataclass(slots=True)
class CardLoad:
    """The workloads of one GPU."""

    on: dict[int, RunningWorkload] = field(default_factory=dict)
    """Those that are on it, or for which it is kept; by Python's identity."""
    coming: dict[int, RunningWorkload] = field(default_factory=dict)
    """Those of `on` of which no process uses it yet, and which it is known to be kept for."""
    guaranteed_gpu: float = 0.0
    """The part of its time that is guaranteed to workloads on it."""
    without_guarantee: int = 0
    """How many workloads on it have no guaranteed part."""
    new: int = 0
    """How many began a short time ago."""
    coming_bytes: int = 0
    """The memory that is guaranteed to those that come."""
    _promised: Promised | None = None
    """What is guaranteed to those that come; None: to be found."""

    @property
    def promised(self) -> Promised:
        """What is guaranteed to workloads that use it not yet."""
        if self._promised is None:
            by_owner: dict[str, float] = {}
            for workload in self.coming.values():
                if part := workload.record.promised.gpu:
                    by_owner[workload.owner] = by_owner.get(workload.owner, 0.0) + part
            self._promised = Promised(by_owner, self.coming_bytes)
        return self._promised

    def count(self, workload: RunningWorkload, *, is_coming: bool, is_new: bool, sign: int) -> None:
        """Count a workload in, or out if `sign` is -1."""
        share = workload.record.promised
        self.guaranteed_gpu += sign * (share.gpu or 0.0)
        self.without_guarantee += sign * (share.gpu is None)
        self.new += sign * is_new
        _keep(self.on, workload, sign)
        if is_coming:
            self.coming_bytes += sign * share.memory_bytes
            self._promised = None
            _keep(self.coming, workload, sign)


class CardLoads:
    """What is on the GPUs of one agent now."""

    def __init__(
        self,
        workloads: Iterable[RunningWorkload],
        clients: Mapping[int, Client],
        gpus: Gpus,
        new_since_s: float = math.inf,
    ) -> None:
        """A workload is new if it began after `new_since_s`, on the loop's clock."""
        self.of: dict[int, CardLoad] = {index: CardLoad() for index in gpus}
        """By index of the GPU."""
        self.allocated: dict[int, int] = {}
        """By index: the bytes that tenants have allocated there, where that is known."""
        self._clients = clients
        self._new_since_s = new_since_s
        self._by_uuid = {gpu.device.uuid: index for index, gpu in gpus.items()}
        for workload in workloads:
            self.add(workload)

    def add(self, workload: RunningWorkload) -> None:
        """Count a workload in."""
        self._count(workload, 1)

    def remove(self, workload: RunningWorkload) -> None:
        """Count a workload out; its record must be the one with which it was counted in."""
        self._count(workload, -1)

    def _count(self, workload: RunningWorkload, sign: int) -> None:
        if not (workload.is_alive or workload.stays):
            return
        used = used_by(workload, self._clients)
        # Of a workload that was given no GPUs it is not known which one it will take, if there are
        # several: its share is checked again when it does.
        kept = {self._by_uuid[uuid] for uuid in workload.cards if uuid in self._by_uuid}
        if len(self.of) == 1:
            kept = set(self.of)
        for index in (used | kept) & self.of.keys():
            is_coming = index in kept and index not in used
            is_new = workload.began_s > self._new_since_s
            self.of[index].count(workload, is_coming=is_coming, is_new=is_new, sign=sign)


def used_by(workload: RunningWorkload, clients: Mapping[int, Client]) -> set[int]:
    """The GPUs that its processes use, or are about to."""
    found: set[int] = set()
    for number in workload.clients:
        if client := clients.get(number):
            found.update(client.gpus, client.unspoken)
    return found


def _keep(known: dict[int, RunningWorkload], workload: RunningWorkload, sign: int) -> None:
    if sign > 0:
        known[id(workload)] = workload
    else:
        known.pop(id(workload), None)
