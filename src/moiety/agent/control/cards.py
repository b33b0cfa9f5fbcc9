"""Chooses the GPUs of a new workload: which cards could keep its share, and which is best.

The engine's rule for the GPUs of one node decides (policy/place/gpu_assignment.py). What it knows
of each card is made here, from what was promised, what is on it, and what NVML measured.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from moiety.agent.control import protocol
from moiety.agent.control.card_loads import CardLoad, CardLoads, used_by
from moiety.agent.control.card_refusals import CardRefusal, taken
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
    MemoryAboveGpu,
    MoietyError,
    NotAllowed,
)
from moiety.model.share import Share
from moiety.policy.model.cluster import WHOLE_GPU, Choosing, GpuDevice, Link, Node
from moiety.policy.place.gpu_assignment import choose

MEASURE_S: Final = 2.0
"""How long NVML may take to say how busy the cards are; the choice is made without it then."""
NVLINK_GBPS: Final = 25.0
"""Gigabytes a second of one NVLink connection each way: only the number of links matters here."""
NEW_S: Final = 60.0
"""How long a new workload counts as busy, whatever is measured: programs take time to load."""

Ask = Callable[[], Awaitable[dict[int, Usage]]]

Refuse = Callable[[int, Share, CardLoad, RunningWorkload | None], tuple[str, Share] | None]
"""Says why a share may not be on the GPU of this index, with the largest that may; None: it may."""


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
        self.kept: Refuse = lambda *_: None
        """Why a share may not be on a card because others wait for it."""
        self._runtime = runtime
        self._gpus = gpus
        self._clients = clients
        self._arbiter = arbiter
        self._known = known
        self._measured: tuple[float, Mapping[int, Usage]] = -math.inf, {}
        """When NVML last said how busy the cards are, and what it said."""

    def loads(self) -> CardLoads:
        """What is on the cards now."""
        since_s = self._runtime.now() - NEW_S
        found = CardLoads(self._known.values(), self._clients, self._gpus, since_s)
        found.allocated = {view.gpu: view.allocated_bytes for view in self._arbiter.gpus()}
        return found

    def choose(
        self,
        request: CardRequest,
        share: Share,
        usages: Mapping[int, Usage] | None = None,
        only: Sequence[int] | None = None,
        loads: CardLoads | None = None,
        owner: str = "",
    ) -> list[int]:
        """The indices of the cards that a new workload with this share gets, in PCI order.

        `usages` is what NVML says, by index; None: what it said last. `only` are the cards of its
        user, `loads` is what is on the cards; None: what is on them now. `owner` is whose time it
        uses.
        Raises BadArgument if there are no such cards, LimitAboveCapacity or MemoryAboveGpu if they
        are too small, ShareTaken if too few can keep the share now.
        """
        cards, count = self.possible(request, only)
        own = dataclasses.replace(share, memory_bytes=0) if request.exclusive else share
        large = self._large_enough(cards, count, own)
        loads = loads or self.loads()
        fitting, refused = self._fitting(large, request, share, loads, owner)
        if len(fitting) < count:
            raise taken(share, count, len(fitting), refused)
        if request.exclusive:  # a card that others use only where no free one is left
            free = [index for index in fitting if not loads.of[index].on]
            fitting = free if len(free) >= count else fitting
        return self._best(fitting, count, self._latest() if usages is None else usages, loads)

    def choose_again(self, workload: RunningWorkload, loads: CardLoads | None = None) -> Record:
        """The record of a workload whose programs have not looked at their cards yet.

        It is moved where one of its cards is drained or lost, and where it shares a card although
        its request can be kept by cards that no workload is on. `loads` counts the workload.
        """
        record = workload.record
        if record.request is None or used_by(workload, self._clients):
            return record
        kept = self.indices(record.chosen)
        loads = loads or self.loads()
        loads.remove(workload)
        try:
            only = self.indices(record.gpus) or None
            found = self._better(workload, kept, only, loads)
        finally:
            loads.add(workload)
        if found is None or sorted(found) == sorted(kept):
            return record
        share = self.share_on(found, record.request, record.share)
        chosen = [card.uuid for card in self.names(found)]
        return msgspec.structs.replace(record, chosen=chosen, share=share)

    def _better(
        self,
        workload: RunningWorkload,
        kept: Sequence[int],
        only: Sequence[int] | None,
        loads: CardLoads,
    ) -> list[int] | None:
        """The cards that would be better than those that are kept; None: there are none.

        `loads` is what others have on the cards.
        """
        record = workload.record
        assert record.request is not None, "its cards were not chosen"
        must_leave = any(self._gpus[i].is_drained or self._gpus[i].lost for i in kept)
        if not must_leave:
            free = sum(not load.on for load in loads.of.values())
            if free < max(1, len(kept)) or not any(loads.of[index].on for index in kept):
                return None
        try:
            found = self.choose(record.request, record.share, None, only, loads, workload.owner)
        except MoietyError:  # no others would do, so it stays
            return None
        return found if must_leave or not any(loads.of[index].on for index in found) else None

    @property
    def are_several(self) -> bool:
        """Whether there is anything to choose."""
        return len(self._gpus) > 1

    async def measured(self, ask: Ask) -> dict[int, Usage]:
        """What NVML says now, by index; nothing where there is no choice, or it takes too long."""
        if not self.are_several:
            return {}
        try:
            usages = await asyncio.wait_for(ask(), MEASURE_S)
        except TimeoutError:
            return {}
        self._measured = self._runtime.now(), usages
        return usages

    def _latest(self) -> Mapping[int, Usage]:
        """What NVML said last; nothing if that was long ago."""
        at_s, usages = self._measured
        return usages if self._runtime.now() - at_s < NEW_S else {}

    def indices(self, uuids: Collection[str]) -> list[int]:
        """The indices of these cards, in PCI order; without those that are not here."""
        return [index for index, gpu in sorted(self._gpus.items()) if gpu.device.uuid in uuids]

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

    def meets(self, request: CardRequest, uuids: Collection[str]) -> bool:
        """Whether these cards are as many as are asked for, and all of them would do."""
        found = self.indices(uuids)
        return len(found) == len(uuids) == request.number and {*found} <= {*self._meant(request)}

    def share_on(self, indices: Iterable[int], request: CardRequest, share: Share) -> Share:
        """The share as it is kept on each of these cards: all of it if it is exclusive."""
        if not request.exclusive:
            return share
        capacity = min(map(self.capacity_bytes, indices))
        kept = min(capacity, share.limit_bytes(capacity))
        return dataclasses.replace(share, gpu=1.0, gpu_limit=1.0, memory_bytes=kept)

    def possible(
        self, request: CardRequest, only: Sequence[int] | None = None
    ) -> tuple[list[int], int]:
        """The cards that a request could get, and how many.

        Raises BadArgument if there are too few, GpusDrained if too few are not drained.
        """
        cards = [index for index in self._meant(request) if only is None or index in only]
        count = request.number
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

    def needs(
        self, request: CardRequest, share: Share, only: Sequence[int] | None
    ) -> dict[int, Share]:
        """By index of each card that could ever keep a share: what it would be there."""
        among = (index for index in self._meant(request) if only is None or index in only)
        found = {index: self.share_on([index], request, share) for index in among}
        large = self._large(found, share)
        return {i: found[i] for i in large if found[i].memory_bytes <= self.capacity_bytes(i)}

    def capacity_bytes(self, index: int) -> int:
        """The memory of a card that is shared out."""
        return self._gpus[index].budget.capacity_bytes

    def _large_enough(self, cards: Sequence[int], count: int, share: Share) -> list[int]:
        """Those of these cards that have the memory that a share may take.

        Raises LimitAboveCapacity or MemoryAboveGpu if there are fewer than `count`.
        """
        large = self._large(cards, share)
        possible = sorted(map(self.capacity_bytes, cards))[-count]
        if len(large) < count:
            raise LimitAboveCapacity(limit=share.memory_limit_bytes or 0, possible=possible)
        if share.memory_bytes > possible:
            raise MemoryAboveGpu(share.memory_bytes, possible)
        return large

    def _large(self, cards: Iterable[int], share: Share) -> list[int]:
        """The cards that have as much as a share's limit; any will do in managed mode."""
        sizes = {index: self.capacity_bytes(index) for index in cards}
        asked = {i: share.asked_limit_bytes(size) or 0 for i, size in sizes.items()}
        return [i for i, size in sizes.items() if asked[i] <= share.limit_bytes(size)]

    def open_to(self, only: Sequence[int] | None) -> Sequence[int]:
        """The only cards that a new workload of a user may use at all; empty: any."""
        if any(gpu.is_drained for gpu in self._gpus.values()):
            cards = self._gpus if only is None else only
            return [index for index in cards if not self._gpus[index].is_drained]
        return only or ()

    def _meant(self, request: CardRequest) -> list[int]:
        """The cards that a request could get, whatever is on them; raises BadArgument.

        Of cards that MIG divides a program gets one part of one, so they must be named.
        """
        uuids = {index: gpu.device.uuid for index, gpu in sorted(self._gpus.items())}
        found = request.find(uuids) if request.named else list(uuids)
        if not request.named:
            found = [index for index in found if not self._gpus[index].device.mig] or found
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
        self,
        cards: Iterable[int],
        request: CardRequest,
        share: Share,
        loads: CardLoads,
        owner: str,
    ) -> tuple[list[int], list[CardRefusal]]:
        """The cards that can keep a share beside what they have, and why the others cannot."""
        fitting: list[int] = []
        refused: list[CardRefusal] = []
        for index in cards:
            wanted = self.share_on([index], request, share)
            no = None
            if wanted.gpu is not None or wanted.memory_bytes:
                load = loads.of[index]
                no = self._arbiter.refuse_share(
                    index, wanted, load.promised, owner=owner
                ) or self.kept(index, wanted, load, None)
            if no is None:
                fitting.append(index)
            else:
                refused.append(CardRefusal(index, *no))
        return fitting, refused

    def _best(
        self, fitting: list[int], count: int, usages: Mapping[int, Usage], loads: CardLoads
    ) -> list[int]:
        """The least loaded of these cards, by the engine's rule for the GPUs of a node."""
        devices = []
        left = []
        for at, index in enumerate(fitting):
            load, usage = loads.of[index], usages.get(index)
            busy = max((usage.utilisation if usage else None) or 0.0, float(load.new))
            links = [
                Link(fitting.index(peer), "nvlink", number * NVLINK_GBPS)
                for peer, number in self._gpus[index].device.links
                if count > 1 and peer in fitting
            ]
            devices.append(GpuDevice(at, tuple(links), busy))
            left.append(self._left(index, load, loads.allocated[index], usage))
        with_room = sum(amount > 0 for amount in left)
        least = 1 if with_room >= count else 0
        node = Node("here", 0, 0, tuple(devices), "any")
        return sorted(fitting[at] for at in choose(node, left, count, least, Choosing.LEAST_BUSY))

    def _left(self, index: int, load: CardLoad, allocated_bytes: int, usage: Usage | None) -> int:
        """What a new workload can expect of a card, in thousandths: of its time and its memory.

        Of the time that is not guaranteed, workloads without a guarantee have equal parts.
        """
        guaranteed = min(1.0, load.guaranteed_gpu)
        time_left = (1.0 - guaranteed) / (load.without_guarantee + 1)
        budget = self._gpus[index].budget
        free = budget.capacity_bytes - allocated_bytes - load.coming_bytes
        if usage is not None:
            free = min(free, budget.total_bytes - usage.used_bytes)
        memory_left = max(0, free) / budget.capacity_bytes
        return int(WHOLE_GPU * min(time_left, memory_left))
