"""Simulated tenants: the shim's side of the contract, without a driver, a socket or a clock.

A `SimulatedTenant` knows the truth about its memory: chunks that are resident or not.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.states import Apart
from tests.support.simulated_memory import Block


class Bytes(NamedTuple):
    """A process on one GPU: what is there, what must be there while it runs, what it may have."""

    resident: int
    mapped: int
    admitted: int


class SimulatedTenant:
    """One process. `inbox` is what it was told and has not read, `sent` what nobody heard yet."""

    def __init__(self, number: int) -> None:
        """A process that has not said anything."""
        self.number = number
        self.owner = self.workload = ""
        self.apart = Apart.NO
        self.inbox: deque[do.Instruction] = deque()
        self.sent: deque[ev.Event] = deque()
        self.is_open = False
        self.epoch = 0
        self.contexts: dict[int, int] = {}
        """Residue for each GPU where the context exists."""
        self.attaching: dict[int, tuple[int, int]] = {}
        self.needing: dict[int, tuple[int, int]] = {}
        """Requests for room for the driver itself."""
        self.blocks: list[Block] = []
        self.credit: dict[int, int] = {}
        self.allowed: dict[int, int] = {}
        """What it may allocate without asking, on each GPU where it may."""
        self.allowed_most: dict[int, int] = {}
        self.spare: dict[int, list[int]] = {}
        """Chunks that it freed and keeps on the GPU, a part of that."""
        self.restoring = False
        self.wanted = False
        self.told_idle = False
        self.watched = False
        self.queue_s = 0.0
        """The bound on unfinished work; 0: none."""
        self.hung = False
        """It reads nothing any more."""
        self.restores_never = False
        """It answers everything, but never says that its memory is there."""
        self.stopped = False
        """Nor runs anything: whoever looks sees why."""
        self.suspended = False  # it is told nothing of that
        self.depends = 0
        """So often a thread must pass the gate until its work on the GPU can end."""
        self.draining: int | None = None
        """The epoch of the revoke that it will answer once its work has ended."""
        self.gang: list[SimulatedTenant] = []
        """The processes that it computes with, itself included."""
        self.launched = 0
        """Operations that all of its gang do together, so far: each ends once all have begun it."""
        self.eviction_fails = False
        self.orders: deque[list[int]] = deque()
        """Evictions under way: [gpu, bytes left]."""
        self.refusals: list[do.Refused] = []
        self._serials = itertools.count(1)
        self.answer: Callable[[ev.ContentReply], Iterable[ev.Event]] = lambda truth: [truth]
        """What it says when it is asked what of its memory is zeros."""

    # What the program does

    def attach(self, gpu: int, residue_bytes: int, limit_bytes: int) -> None:
        """Ask to create a context."""
        serial = next(self._serials)
        self.attaching[serial] = (gpu, residue_bytes)
        self.sent.append(ev.Attach(self.number, gpu, serial, residue_bytes, limit_bytes))

    def allocate(self, gpu: int, chunks: list[int], *, pinned: bool = False) -> Block:
        """Ask for memory, or take it from the allowance, with what is spare of these sizes."""
        block = Block(gpu, chunks, pinned, next(self._serials))
        self.blocks.append(block)
        if pinned or block.bytes > self.allowed.get(gpu, 0):
            self.sent.append(ev.AllocRequest(self.number, gpu, block.serial, block.bytes, pinned))
            return block
        self.allowed[gpu] -= block.bytes
        spare = self.spare.setdefault(gpu, [])
        before = sum(spare)
        if self.is_open and all(chunks.count(size) <= spare.count(size) for size in chunks):
            for size in chunks:
                spare.remove(size)
            block.resident = [True] * len(chunks)
        while sum(spare) > self.allowed[gpu]:
            spare.pop(0)
        block.admitted = True
        self.sent.append(ev.CreditUsed(self.number, gpu, block.bytes, before - sum(spare)))
        return block

    def need(self, gpu: int, amount: int) -> int:
        """Have the driver run out by itself; the serial is in `needing` till answered."""
        serial = next(self._serials)
        self.needing[serial] = (gpu, amount)
        self.sent.append(ev.DriverOom(self.number, gpu, serial, amount))
        return serial

    def free(self, block: Block) -> None:
        """Free what was admitted, mapped or not; what is on the GPU may become spare."""
        self.blocks.remove(block)
        gpu, size = block.gpu, block.bytes
        is_there = block.resident_bytes == size and not block.pinned
        if is_there and self.allowed.get(gpu, 0) + size <= self.allowed_most.get(gpu, 0):
            self.allowed[gpu] += size
            keeps = len(block.chunks) > 1  # others are released at once
            if keeps:
                self.spare.setdefault(gpu, []).extend(block.chunks)
            spare = size if keeps else 0
            self.sent.append(ev.Free(self.number, gpu, size, spare, allowed=True))
            return
        self.sent.append(
            ev.Free(self.number, block.gpu, block.bytes, block.resident_bytes, block.pinned)
        )

    def end_allowance(self, gpu: int, *, quietly: bool = False) -> None:
        """Give back what is left, because it was told to, or did not use it."""
        left = self.allowed.pop(gpu, 0)
        self.allowed_most.pop(gpu, None)
        self.spare.pop(gpu, None)
        if not quietly:
            self.sent.append(ev.CreditReturned(self.number, gpu, left))

    def detach(self, gpu: int) -> None:
        """Destroy the context, and all memory with it."""
        del self.contexts[gpu]
        self.end_allowance(gpu, quietly=True)
        self.blocks = [block for block in self.blocks if block.gpu != gpu]
        self.needing = {s: need for s, need in self.needing.items() if need[0] != gpu}
        self.credit.pop(gpu, None)
        self.sent.append(ev.Detach(self.number, gpu))

    def pin(self, call: str) -> None:
        """Do something after which no memory can leave."""
        self.sent.append(ev.Pinned(self.number, call))

    def touch(self) -> None:
        """Use the GPU: pass the gate, or say once that it is closed."""
        if self.is_open:
            self.launched += bool(self.gang)
            self.depends = max(0, self.depends - 1)
            self.map()
            if self.told_idle:
                self.told_idle = False
                self.sent.append(ev.Busy(self.number, self.epoch))
        elif not self.wanted:
            self.wanted = True
            self.sent.append(ev.LeaseRequest(self.number))

    def map(self) -> None:
        """Map what was admitted meanwhile."""
        for block in self.blocks:
            if block.admitted and not block.resident:
                block.resident = [True] * len(block.chunks)

    def write(self, block: Block, chunk: int) -> None:
        """Make one chunk of a mapped block data."""
        if self.is_open and block.resident:
            block.written.add(chunk)

    def fall_idle(self) -> None:
        """Be silent for as long as the watch asks."""
        if self.watched and self.is_open:
            self.watched = False
            self.told_idle = True
            self.sent.append(ev.Idle(self.number, self.epoch))

    # The truth

    def resident_bytes(self, gpu: int) -> int:
        """What of it is on the GPU, its context aside."""
        return sum(block.resident_bytes for block in self.blocks if block.gpu == gpu)

    def chunks_on(self, gpu: int, *, resident: bool, data: bool) -> int:
        """Bytes of its chunks that are, or are not, on the GPU, and are, or are not, data."""
        movable = [block for block in self.blocks if block.gpu == gpu and not block.pinned]
        return sum(block.in_chunks(resident=resident, data=data) for block in movable)

    def bytes_on(self, gpu: int) -> Bytes:
        """All of that at once."""
        resident = mapped = admitted = 0
        for block in self.blocks:
            if block.gpu == gpu and block.admitted:
                size = block.bytes
                admitted += size
                if block.resident:
                    mapped += size
                    resident += size if all(block.resident) else block.resident_bytes
        return Bytes(resident, mapped, admitted)

    def spare_bytes(self, gpu: int) -> int:
        """What it freed and keeps on the GPU."""
        return sum(self.spare.get(gpu, []))

    def mapped_bytes(self, gpu: int) -> int:
        """What of it must be on the GPU while its lease word is open."""
        return sum(b.bytes for b in self.blocks if b.gpu == gpu and b.resident)

    @property
    def waits(self) -> bool:
        """Whether the program can do nothing before somebody answers."""
        asked = any(not block.admitted for block in self.blocks)
        wants = self.wanted and not self.is_open
        return bool(self.attaching or self.needing) or asked or wants

    @property
    def bound_s(self) -> float:
        """How much unfinished work it may have submitted once it has read what it was told."""
        told = [each.queue_s for each in self.inbox if isinstance(each, do.SetQueueDepth)]
        return told[-1] if told else self.queue_s

    @property
    def is_behind(self) -> bool:
        """Whether its threads have yet to begin what others of its gang wait for."""
        return any(mate.launched > self.launched for mate in self.gang)

    @property
    def is_stubborn(self) -> bool:
        """Whether its work waits for something of its own, or a mate's does, and so it may wait."""
        return bool(self.depends) or any(mate.depends for mate in self.gang)

    @property
    def is_running(self) -> bool:
        """Whether its work on the GPU cannot end before threads pass the gate, of any mate."""
        return bool(self.depends) or any(mate.launched < self.launched for mate in self.gang)

    # The control thread

    @property
    def has_work(self) -> bool:
        """Whether the next `work` does anything."""
        has_drained = self.draining is not None and not self.is_running
        if self.is_behind and (self.is_open or not self.wanted):
            return not self.stopped
        can = self.inbox or self.orders or has_drained or self._can_restore()
        return not self.hung and not self.stopped and bool(can)

    def work(self) -> None:
        """Do one thing: a step of an eviction, read a message, or restore a chunk."""
        if not self.stopped and self.is_behind and (self.is_open or not self.wanted):
            self.touch()
        elif self.hung or self.stopped:
            return
        elif self.orders:
            self._evict_one()
        elif self.draining is not None and not self.is_running:
            self._drain(self.draining)
        elif self.inbox:
            self._read(self.inbox.popleft())
        else:
            self._restore_one()

    def _read(self, told: do.Instruction) -> None:
        if isinstance(told, do.Admitted):
            self._admitted(told)
        elif isinstance(told, do.Refused):
            self.refusals.append(told)
            self.needing.pop(told.serial, None)
            self.attaching.pop(told.serial, None)
            self.blocks = [b for b in self.blocks if b.serial != told.serial]
        elif isinstance(told, do.RestoreBudget):
            self.credit[told.gpu] = self.credit.get(told.gpu, 0) + told.bytes
            self.restoring = True
            self._say_restored()
        elif isinstance(told, do.Evict):
            self.credit[told.gpu] = 0
            self.orders.append([told.gpu, told.bytes])
        elif isinstance(told, do.ContentQuery):
            if told.gpu in self.contexts:
                zero = self.chunks_on(told.gpu, resident=True, data=False)
                host = self.chunks_on(told.gpu, resident=False, data=True)
                self.sent += self.answer(ev.ContentReply(self.number, told.gpu, zero, host))
        elif isinstance(told, do.Grant):
            self.epoch = told.epoch
            stood, self.wanted = self.wanted, False
            self.draining = None
            if stood and self.depends:
                self.touch()  # the thread at the gate goes on, or says again that it stands there
        elif isinstance(told, do.Revoke):
            self.draining = told.epoch
            if not self.is_running:
                self._drain(told.epoch)
        elif isinstance(told, do.AllowOne):
            assert self.draining is None, "a step for one that has not answered"
            self._step(told.epoch)
        elif isinstance(told, do.SetQueueDepth):
            self.queue_s = told.queue_s
        elif isinstance(told, do.CreditGrant):
            if told.gpu in self.contexts:  # else all it had there is gone
                self.allowed[told.gpu] = self.allowed.get(told.gpu, 0) + told.bytes
                self.allowed_most[told.gpu] = told.most_bytes
        elif isinstance(told, do.CreditRevoke):
            if told.gpu in self.contexts:
                self.end_allowance(told.gpu)
        elif isinstance(told, do.SetIdleTimeout):
            self.watched = told.idle_s > 0
            self.told_idle = False

    def _admitted(self, told: do.Admitted) -> None:
        self.needing.pop(told.serial, None)
        if told.serial in self.attaching:
            gpu, residue = self.attaching.pop(told.serial)
            self.contexts[gpu] = residue
        for block in self.blocks:
            if block.serial == told.serial:
                block.admitted = True

    def _step(self, epoch: int) -> None:
        """One call passes, if one waits; what it began is drained again."""
        if self.is_open:
            return  # it got its lease meanwhile
        if self.wanted:
            self.wanted = False
            self.launched += bool(self.gang)
            self.depends = max(0, self.depends - 1)
        self.draining = epoch

    def _drain(self, epoch: int) -> None:
        self.draining = None
        self.credit.clear()
        self.restoring = self.watched = self.told_idle = False
        for gpu in list(self.allowed_most):
            self.end_allowance(gpu)
        counted = [(gpu, self.resident_bytes(gpu)) for gpu in self.contexts]
        for gpu, resident in counted[:-1]:
            self.sent.append(ev.Resident(self.number, gpu, resident))
        last = counted[-1] if counted else (None, 0)
        self.sent.append(ev.Drained(self.number, epoch, *last))

    def _evict_one(self) -> None:
        order = self.orders[0]
        gpu = order[0]
        here = [b for b in self.blocks if b.gpu == gpu and not b.pinned]
        there = [(b, i) for b in here for i, is_there in enumerate(b.resident) if is_there]
        if order[1] > 0 and there and not self.eviction_fails:
            zeros = [(b, i) for b, i in there if i not in b.written]
            block, index = (zeros or there)[-1]
            block.resident[index] = False
            moved = block.chunks[index]
            order[1] -= moved
            left = self.resident_bytes(gpu)
            self.sent.append(ev.Evicted(self.number, gpu, moved, left))
            return
        self.orders.popleft()
        self.sent.append(
            ev.Evicted(
                self.number,
                gpu,
                0,
                self.resident_bytes(gpu),
                last=True,
                failed=order[1] > 0 and self.eviction_fails,
            )
        )

    def _missing(self) -> Iterable[tuple[Block, int]]:
        return ((b, i) for b in self.blocks for i, there in enumerate(b.resident) if not there)

    def _can_restore(self) -> bool:
        if self.restores_never:
            return False
        return self.restoring and (self._next_missing() is not None or not any(self._missing()))

    def _next_missing(self) -> tuple[Block, int] | None:
        """A chunk that there is room for; none also when it has all and said so."""
        if not self.restoring:
            return None
        for block, index in sorted(self._missing(), key=lambda at: at[1] not in at[0].written):
            if block.chunks[index] <= self.credit.get(block.gpu, 0):
                return block, index
        return None

    def _restore_one(self) -> None:
        if found := self._next_missing():
            block, index = found
            block.resident[index] = True
            self.credit[block.gpu] -= block.chunks[index]
        self._say_restored()

    def _say_restored(self) -> None:
        if self.restoring and not any(self._missing()):
            self.restoring = False
            self.credit.clear()
            self.sent.append(ev.Restored(self.number))
