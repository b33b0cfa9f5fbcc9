"""The shares of workloads: checked before they start, and changed while they run."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.card_loads import CardLoads
from moiety.agent.control.cards import Cards
from moiety.agent.control.limits import LimitEnforcer
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus, index_of
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.agent.core.time_owners import owner_of
from moiety.agent.system.users import name_of
from moiety.arbiter.machine import Arbiter
from moiety.config.values import Visible
from moiety.devices.budget import GRANULE_BYTES
from moiety.devices.interface import uuid_bytes
from moiety.model.errors import (
    BadRequest,
    LimitAboveCapacity,
    LimitTooSmall,
    MemoryAboveGpu,
    MemoryAboveLimit,
    NotAllowed,
    ShareTaken,
    WorkloadAmbiguous,
    WorkloadUnknown,
)
from moiety.model.format import format_bytes, format_fraction
from moiety.model.share import Share

LIMITS: Final = frozenset({"memory_limit_bytes", "memory_limit_part"})
"""The fields of a share that say what its program may allocate."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of one node."""

    runtime: Runtime
    clients: Mapping[int, Client]
    gpus: Gpus
    arbiter: Arbiter
    journal: Journal
    workloads: Workloads
    cards: Cards
    limits: LimitEnforcer | None = None

    def check(
        self,
        share: Share,
        uid: int,
        own: RunningWorkload | None = None,
        gpus: Collection[str] = (),
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Raise LimitAboveCapacity, MemoryAboveGpu, LimitTooSmall or ShareTaken.

        Raises UserLimit if this user may not have it. `own` is the workload that gets it instead of
        its present share. If no process of it is on a GPU yet, one GPU that could take the share is
        enough; with `gpus` (UUIDs; BadRequest for one that is not here) each of them must. `labels`
        are those of a new share.
        """
        among = {self._gpu(uuid) for uuid in gpus}
        sizes = {index: gpu.budget.capacity_bytes for index, gpu in self.gpus.items()}
        possible = min(sizes[gpu] for gpu in among) if among else max(sizes.values())
        limit = share.asked_limit_bytes(possible)
        clients = [self.clients[n] for n in own.clients] if own else []
        used = {gpu for client in clients for gpu in client.gpus}
        if self.limits:
            limited = dataclasses.replace(share, memory_limit_bytes=limit)
            loads = self._loads_beside(own)
            on = [loads.of[gpu] for gpu in sorted(used | among or self.gpus)]
            is_known = bool(used or among)
            self.limits.check(uid, limited, own, capacity=possible, on=on, each=is_known)
        if limit is not None and limit > share.limit_bytes(possible):
            raise LimitAboveCapacity(limit=limit, possible=possible)
        if limit is not None and limit < GRANULE_BYTES:
            raise LimitTooSmall(limit, GRANULE_BYTES)
        if limit is not None and share.memory_bytes > limit:
            raise MemoryAboveLimit(share.memory_bytes, limit)
        if share.memory_bytes > possible:
            raise MemoryAboveGpu(share.memory_bytes, possible)
        if share.gpu is None and not share.memory_bytes:
            return
        loads = self._loads_beside(own)
        numbers = [client.number for client in clients]
        refusals = []
        for gpu in sorted(used | among or self.gpus):
            load = loads.of[gpu]
            refusal = self.arbiter.refuse_share(
                gpu,
                share,
                load.promised,
                numbers,
                own.owner if own else self.owner_of(uid, labels),
            ) or self.cards.kept(gpu, share, load, own)
            if refusal is None and not used and not among:
                return
            if refusal is not None:
                refusals.append(refusal)
        if refusals:
            text, instead = max(refusals, key=lambda each: (each[1].gpu or 0, each[1].memory_bytes))
            raise ShareTaken(text, _typed(share, instead))

    def _loads_beside(self, own: RunningWorkload | None) -> CardLoads:
        others = [w for w in self.workloads.by_id.values() if w is not own]
        return CardLoads(others, self.clients, self.gpus)

    def owner_of(self, uid: int, labels: Mapping[str, str] | None = None) -> str:
        """Whose time a new workload of a user would use; `labels` are those of its share."""
        account = self.limits.account_of(uid) if self.limits else uid
        if self.limits:
            self.limits.guarantees.asks(account)
        return owner_of(account, labels or {})

    def must_be_left(self, part: float, uid: int) -> None:
        """Raise ShareTaken if other owners' guarantees leave no GPU with this part for a user.

        It could not be promised then if no other program ran.
        """
        most = self.arbiter.largest_part(self.owner_of(uid))
        if part > most + _ROUNDING:
            kept = format_fraction(round(1 - most, 9))
            raise ShareTaken(
                f"{format_fraction(part)} of a GPU can never be guaranteed to this user: {kept} of "
                "each are guaranteed to others, also while they run nothing (`moiety status`)",
                f"--gpu {most:g} or less" if most > _ROUNDING else "no guaranteed part",
            )

    def change(
        self,
        request: protocol.SetShare,
        only: int | None = None,
        visible: Visible = Visible.ALL,
    ) -> protocol.Shared:
        """Change the share of one program; raises what `check` and `find` raise.

        `only`: it must belong to this user, who sees of others' programs what `visible` says.
        """
        workload, client = self.find(request.target, only, visible)
        owner = workload.record.uid
        changes: dict[str, Any] = {
            field.name: value
            for field in dataclasses.fields(Share)
            if (value := getattr(request, field.name)) is not msgspec.UNSET
        }
        share = dataclasses.replace(workload.record.share, **changes)
        self.check(share, owner, workload)
        self.workloads.promise(workload, share)
        source = workload.record.id
        if self.journal.often(source, "ShareChanged", _told(changes), client):
            self.runtime.log.info("share_set", workload=source, share=str(share))
        program = client.program if client else workload.record.name or workload.record.program
        pid = client.pid if client else workload.record.root_pid
        above = self.tell_above(workload) if {*changes} & LIMITS else 0
        return protocol.Shared(program=program, pid=pid, share=share, above_limit_bytes=above)

    def tell_above(self, workload: RunningWorkload) -> int:
        """Note what a workload has beyond a lowered limit; the bytes beyond it, 0 if none.

        It is noted of the process that has most.
        """
        on: dict[int, list[tuple[int, int, int]]] = {}
        for view in self.arbiter.tenants():
            for gpu, its in view.gpus.items() if view.tenant in workload.clients else ():
                on.setdefault(gpu, []).append((its.allocated_bytes, view.tenant, its.limit_bytes))
        above, (_, number, _) = max(
            ((sum(each[0] for each in there) - there[0][2], max(there)) for there in on.values()),
            default=(0, (0, 0, 0)),
        )
        if above <= 0 or workload.record.share.asked_limit_bytes(1) is None:
            return 0
        text = f"{format_bytes(above)} above its new limit; it keeps them until it frees them"
        self.journal.often(workload.record.id, "AboveLimit", text, self.clients[number])
        return above

    def _gpu(self, uuid: str) -> int:
        with contextlib.suppress(ValueError):
            if (found := index_of(self.gpus, uuid_bytes(uuid))) is not None:
                return found
        raise BadRequest(problem=f"{uuid} is no GPU of this agent")

    def find(
        self, target: str, only: int | None, visible: Visible
    ) -> tuple[RunningWorkload, Client | None]:
        """The program that a number or a name means; user `only`'s programs come first.

        Raises WorkloadUnknown, WorkloadAmbiguous, or NotAllowed for another user's program that
        this user sees: whose names and pids are hidden has tenants' numbers only.
        """
        may = [w for w in self.workloads.by_id.values() if only in (None, w.record.uid)]
        try:
            return self._find_among(target, may)
        except WorkloadUnknown:
            if only is None:
                raise
        workload, client = self._find_among(target, self.workloads.by_id.values())
        is_number = client is not None and target == str(client.number)
        if visible is Visible.NOTHING or (visible is Visible.SIZES and not is_number):
            raise WorkloadUnknown(target)
        raise NotAllowed(
            f"{target} is a program of {name_of(workload.record.uid)}",
            "one of your own (`moiety ps`); root may change all",
        )

    def _find_among(
        self, target: str, workloads: Collection[RunningWorkload]
    ) -> tuple[RunningWorkload, Client | None]:
        by_client = {number: workload for workload in workloads for number in workload.clients}
        clients = [self.clients[n] for n in by_client if n in self.clients]
        if target.isascii() and target.isdecimal() and len(target) < 20:
            number = int(target)
            for client in [c for c in clients if c.number == number] + clients:
                if number in (client.number, client.pid):
                    return by_client[client.number], client
            for workload in workloads:
                if workload.record.root_pid == number:
                    return workload, None
        for workload in workloads:
            if target == workload.record.id:
                return workload, None
        named = [c for c in clients if c.program == target]
        if named:
            _only_one(target, named)
            return by_client[named[0].number], named[0]
        waiting = [w for w in workloads if target in (w.record.name, w.record.program)]
        if len(waiting) != 1:
            raise WorkloadUnknown(target)
        return waiting[0], None


def _told(changes: dict[str, Any]) -> str:
    """The changes in words."""
    return ", ".join(
        f"{name.removesuffix('_bytes').removesuffix('_s').replace('_', ' ')}: "
        + (format_bytes(value) if value and name.endswith("_bytes") else str(value))
        for name, value in changes.items()
    )


def _only_one(target: str, named: Iterable[Client]) -> None:
    found = list(named)
    if len({client.workload for client in found}) > 1:
        raise WorkloadAmbiguous(target, [client.number for client in found])


def _typed(share: Share, instead: Share) -> str:
    """The options of a share that could be promised instead."""
    options = []
    if share.gpu != instead.gpu:
        options.append(f"--gpu {instead.gpu:g} or less" if instead.gpu else "no --gpu")
    if share.memory_bytes != instead.memory_bytes:
        mebibytes = instead.memory_bytes >> 20
        options.append(f"--memory {mebibytes}MiB or less" if mebibytes else "no --memory")
    return f"{' and '.join(options)}, or less for others (`moiety ps -o wide`, `moiety set`)"
