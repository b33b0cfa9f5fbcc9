"""Chooses the GPUs of a new workload: which cards could keep its share, and which is best.

The engine's rule for the GPUs of one node decides (policy/place/gpu_assignment.py). What it knows
of each card is made here, from what was promised, what is on it, and what NVML measured.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.promises import coming, promised
from moiety.agent.control.records import Record
from moiety.agent.control.rows import CardName
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.runtime import Runtime
from moiety.arbiter.machine import Arbiter
from moiety.devices.interface import Usage
from moiety.model.cards import CardRequest
from moiety.model.errors import (
    BadArgument,
    GpusDrained,
    LimitAboveCapacity,
    MoietyError,
    NotAllowed,
    ShareTaken,
)
from moiety.model.format import format_bytes, format_fraction
from moiety.model.share import Share
from moiety.policy.model.cluster import WHOLE_GPU, Choosing, GpuDevice, Node
from moiety.policy.place.gpu_assignment import choose

MEASURE_S: Final = 2.0
"""How long NVML may take to say how busy the cards are; the choice is made without it then."""
NEW_S: Final = 60.0
"""How long a new workload counts as busy, whatever is measured: programs take time to load."""

Ask = Callable[[], Awaitable[dict[int, Usage]]]


@dataclass(frozen=True, slots=True)
class CardRefusal:
    """Why one card cannot keep a share, and the share that it could."""

    index: int
    text: str
    possible: Share


class Cards:
    """The cards of one agent, as a new workload finds them."""

    def __init__(
        self,
        runtime: Runtime,
        gpus: Gpus,
        clients: Mapping[int, Client],
        arbiter: Arbiter,
        known: Mapping[str, RunningWorkload],
    ) -> None:
        """`known` are the workloads of the agent, by id."""
        self._runtime = runtime
        self._gpus = gpus
        self._clients = clients
        self._arbiter = arbiter
        self._known = known

    def choose(
        self,
        request: CardRequest,
        share: Share,
        usages: Mapping[int, Usage] | None = None,
        only: Sequence[int] | None = None,
    ) -> list[int]:
        """The indices of the cards that a new workload with this share gets, in PCI order.

        `usages` is what NVML says, by index; `only` are the cards of its user.
        Raises BadArgument if there are no such cards, LimitAboveCapacity if they are too small,
        ShareTaken if too few can keep the share now.
        """
        cards, count = self.possible(request, only)
        limit = share.memory_limit_bytes or 0
        largest = max(self._gpus[index].budget.capacity_bytes for index in cards)
        if limit > largest:
            raise LimitAboveCapacity(limit=limit, possible=largest)
        fitting, refused = self._fitting(cards, request, share)
        if len(fitting) < count:
            raise _taken(share, count, len(fitting), refused)
        if request.exclusive:  # a card that others use only where no free one is left
            free = [index for index in fitting if not self.on(index)]
            fitting = free if len(free) >= count else fitting
        return self._best(fitting, count, usages or {})

    def choose_again(self, workload: RunningWorkload) -> Record:
        """The record of a workload whose programs have not looked at their cards yet.

        It is moved where one of its cards is drained or lost, and where it shares a card although
        its request can be kept by cards that no workload is on.
        """
        record = workload.record
        uuids = {gpu.device.uuid: index for index, gpu in self._gpus.items()}
        kept = [uuids[uuid] for uuid in record.chosen if uuid in uuids]
        used = [self._clients[n] for n in workload.clients if n in self._clients]
        if record.request is None or any(client.gpus or client.unspoken for client in used):
            return record
        must_leave = any(self._gpus[i].is_drained or self._gpus[i].lost for i in kept)
        known = {key: other for key, other in self._known.items() if other is not workload}
        others = Cards(self._runtime, self._gpus, self._clients, self._arbiter, known)
        if not must_leave and not any(others.on(index) for index in kept):
            return record
        only = [uuids[uuid] for uuid in record.gpus if uuid in uuids] or None
        try:
            found = others.choose(record.request, record.share, only=only)
        except MoietyError:  # no others would do, so it stays
            return record
        if not must_leave and any(others.on(index) for index in found):
            return record
        share = others.share_on(found, record.request, record.share)
        chosen = [card.uuid for card in self.names(found)]
        return msgspec.structs.replace(record, chosen=chosen, share=share)

    @property
    def are_several(self) -> bool:
        """Whether there is anything to choose."""
        return len(self._gpus) > 1

    async def measured(self, ask: Ask) -> dict[int, Usage]:
        """What NVML says now, by index; nothing where there is no choice, or it takes too long."""
        if not self.are_several:
            return {}
        try:
            return await asyncio.wait_for(ask(), MEASURE_S)
        except TimeoutError:
            return {}

    def names(self, indices: Iterable[int]) -> list[CardName]:
        """These cards, as a command names them."""
        devices = [self._gpus[index].device for index in indices if index in self._gpus]
        return [CardName(device.index, device.uuid, device.name) for device in devices]

    def within(
        self, asked: protocol.CreateContainer, only: Sequence[int] | None
    ) -> protocol.CreateContainer:
        """A share for containers on none but its user's cards, and on no drained one.

        Raises NotAllowed for cards that are not the user's, GpusDrained for drained ones that it
        did not have.
        """
        self._must_be_open(asked, only)
        if only is None:
            return asked
        allowed = [card.uuid for card in self.names(only)]
        if not allowed or not set(asked.gpus) <= set(allowed):
            named = ", ".join(map(str, only))
            raise NotAllowed(f"this user may have no GPUs but {named}", "a share of these")
        chosen = [card.uuid for card in self.names(self.open_to(only))]
        return msgspec.structs.replace(asked, gpus=asked.gpus or chosen)

    def _must_be_open(self, asked: protocol.CreateContainer, only: Sequence[int] | None) -> None:
        """Raise GpusDrained if a share for containers can have drained cards only, or names one."""
        own = self._known.get(asked.name)
        if own is not None and own.record.gpus == asked.gpus:
            return
        had = own.record.gpus if own else ()
        drained = [i for i, gpu in sorted(self._gpus.items()) if gpu.is_drained]
        named = [i for i in drained if self._gpus[i].device.uuid in {*asked.gpus}.difference(had)]
        among = self._gpus if only is None else [index for index in only if index in self._gpus]
        if named or (not asked.gpus and among and set(among) <= set(drained)):
            raise GpusDrained(named or drained)

    def share_on(self, indices: Iterable[int], request: CardRequest, share: Share) -> Share:
        """The share as it is kept on each of these cards: all of it if it is exclusive."""
        if not request.exclusive:
            return share
        capacity = min(self._gpus[index].budget.capacity_bytes for index in indices)
        kept = min(capacity, share.memory_limit_bytes or capacity)
        return dataclasses.replace(share, gpu=1.0, gpu_limit=1.0, memory_bytes=kept)

    def possible(
        self, request: CardRequest, only: Sequence[int] | None = None
    ) -> tuple[list[int], int]:
        """The cards that a request could get, and how many.

        Raises BadArgument if there are too few, GpusDrained if too few are not drained.
        """
        cards = [index for index in self._meant(request) if only is None or index in only]
        count = request.count or len(request.named) or 1
        if count > len(cards):
            raise BadArgument(
                f"{count} GPUs are asked for, and {len(cards)} of the kind are here for you",
                f"--gpus {len(cards)} or less; `moiety status` lists them"
                if cards
                else "other GPUs, or an administrator: the file of settings may name your GPUs",
            )
        chosen_from = [index for index in cards if not self._gpus[index].is_drained]
        if count > len(chosen_from):
            raise GpusDrained([index for index in cards if index not in chosen_from])
        return chosen_from, count

    def open_to(self, only: Sequence[int] | None) -> Sequence[int]:
        """The only cards that a new workload of a user may use at all; empty: any."""
        if any(gpu.is_drained for gpu in self._gpus.values()):
            cards = self._gpus if only is None else only
            return [index for index in cards if not self._gpus[index].is_drained]
        return only or ()

    def _meant(self, request: CardRequest) -> list[int]:
        """The cards that a request could get, whatever is on them; raises BadArgument."""
        uuids = {index: gpu.device.uuid for index, gpu in sorted(self._gpus.items())}
        found = request.find(uuids) if request.named else list(uuids)
        if request.model:
            wanted = request.model.lower()
            of_model = [i for i in found if wanted in self._gpus[i].device.name.lower()]
            if not of_model:
                here = ", ".join(sorted({self._gpus[i].device.name for i in found}))
                raise BadArgument(
                    f"no GPU here is a {request.model}", f"a part of one of these names: {here}"
                )
            found = of_model
        return [index for index in found if not self._gpus[index].lost] or found

    def _fitting(
        self, cards: Iterable[int], request: CardRequest, share: Share
    ) -> tuple[list[int], list[CardRefusal]]:
        """The cards that can keep a share beside what they have, and why the others cannot."""
        fitting: list[int] = []
        refused: list[CardRefusal] = []
        for index in cards:
            if self._gpus[index].budget.capacity_bytes < (share.memory_limit_bytes or 0):
                continue
            wanted = self.share_on([index], request, share)
            no = None
            if wanted.gpu is not None or wanted.memory_bytes:
                others = coming(self._known.values(), self._clients, self._gpus, index)
                no = self._arbiter.refuse_share(index, wanted, promised(others))
            if no is None:
                fitting.append(index)
            else:
                refused.append(CardRefusal(index, *no))
        return fitting, refused

    def _best(self, fitting: list[int], count: int, usages: Mapping[int, Usage]) -> list[int]:
        """The least loaded of these cards, by the engine's rule for the GPUs of a node."""
        devices = []
        left = []
        for at, index in enumerate(fitting):
            devices.append(GpuDevice(at, utilisation=self._busy(index, usages.get(index))))
            left.append(self._left(index, usages.get(index)))
        node = Node("here", 0, 0, tuple(devices), "any")
        with_room = sum(amount > 0 for amount in left)
        least = 1 if with_room >= count else 0
        found = choose(node, left, count, least, Choosing.LEAST_BUSY)
        return sorted(fitting[at] for at in found)

    def on(self, index: int) -> list[RunningWorkload]:
        """The workloads that are on a card, or will be."""
        uuid = self._gpus[index].device.uuid
        found = []
        for workload in self._known.values():
            if not (workload.is_alive or workload.stays):
                continue
            clients = [self._clients[n] for n in workload.clients if n in self._clients]
            if any(index in client.gpus or index in client.unspoken for client in clients) or (
                uuid in workload.cards or not self.are_several
            ):
                found.append(workload)
        return found

    def _busy(self, index: int, usage: Usage | None) -> float:
        """How busy a card is: as measured, and as new workloads are expected to make it."""
        now_s = self._runtime.now()
        new = [w for w in self.on(index) if now_s - w.began_s < NEW_S]
        measured = (usage.utilisation if usage else None) or 0.0
        return max(measured, float(len(new)))

    def _left(self, index: int, usage: Usage | None) -> int:
        """What a new workload can expect of a card, in thousandths: of its time and its memory.

        Of the time that is not guaranteed, workloads without a guarantee have equal parts.
        """
        shares = [workload.record.share for workload in self.on(index)]
        guaranteed = min(1.0, sum(share.gpu or 0.0 for share in shares))
        equal = sum(share.gpu is None for share in shares)
        time_left = (1.0 - guaranteed) / (equal + 1)
        budget = self._gpus[index].budget
        view = next(view for view in self._arbiter.gpus() if view.gpu == index)
        others = coming(self._known.values(), self._clients, self._gpus, index)
        free = budget.capacity_bytes - view.allocated_bytes - promised(others).memory_bytes
        if usage is not None:
            free = min(free, budget.total_bytes - usage.used_bytes)
        memory_left = max(0, free) / budget.capacity_bytes
        return int(WHOLE_GPU * min(time_left, memory_left))


def _taken(share: Share, count: int, fitting: int, refused: list[CardRefusal]) -> ShareTaken:
    """Why too few cards can keep a share, with the nearest share that one could."""
    nearest = max(refused, key=lambda each: (each.possible.gpu or 0, each.possible.memory_bytes))
    if len(refused) == 1 and count == 1:
        text = nearest.text
    else:
        those = f"{fitting} of {fitting + len(refused)} GPUs" if fitting else "no GPU"
        text = f"{those} can keep that, and {count} must; the nearest: {nearest.text}"
    possible, options = nearest.possible, []
    if share.gpu != possible.gpu and possible.gpu:
        options.append(f"--gpu {possible.gpu:g}")
    if share.memory_bytes != possible.memory_bytes and possible.memory_bytes:
        options.append(f"--memory {possible.memory_bytes >> 20}MiB")
    if not options:
        return ShareTaken(text, "no guarantee, or less for others (`moiety ps -o wide`)")
    had = []
    if possible.gpu:
        had.append(format_fraction(possible.gpu))
    if possible.memory_bytes and share.memory_bytes:
        had.append(format_bytes(possible.memory_bytes))
    fits = f"{' '.join(options)} fits on GPU {nearest.index}, which has {' and '.join(had)} left"
    return ShareTaken(text, f"{fits}; or less for others (`moiety ps -o wide`, `moiety set`)")
