"""The short hand-off: messages come through the native thread, which carries out what is armed.

A transition is armed between two events only: whatever feeds the arbiter disarms first, and takes
in the message of a transition that was carried out meanwhile, at the time when that was read. So
the arbiter decides what has happened already; if it decided otherwise, that would be a bug, and the
lease would be as it decided (docs/decisions/0059).

Several can be carried out in a row without Python in between: a holder falls silent and drains,
another gets its lease, the first asks for it again. Then all messages are taken in, in their order;
Python leaves words alone that were changed for what it takes in, since they may have changed again.
A holder with more work may ask for its next lease before it drains; that message has its place in
that order, and ends the row with that drain.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, Protocol

from moiety.agent.core.client import Client
from moiety.agent.core.native_reader import (
    FOLLOWING_MAX,
    HEADS_MAX,
    ArmedState,
    NativeReader,
    Shot,
    Taken,
)
from moiety.agent.core.runtime import Runtime
from moiety.agent.system.event_loop import EventLoop
from moiety.agent.system.peer_socket import close_later
from moiety.arbiter.schedule.armed import Armed
from moiety.wire.codec import lease_note
from moiety.wire.layout import LEASE_OPEN, Type

_AT_ONCE: Final = 64
"""Packets that are taken before the loop serves others."""
_NEVER_NS: Final = (1 << 63) - 1
_EXACT_NS: Final = 1000
"""More than seconds as a float are off."""


class Receiver(Protocol):
    """A connection, as far as what was read for it is concerned."""

    @property
    def uid(self) -> int:
        """The user at the other end."""

    def receive(self, taken: Taken) -> None:
        """Take in what was read."""


class FastHandoff:
    """Gives what the thread read to its connections, and arms it between events."""

    def __init__(
        self,
        loop: EventLoop,
        runtime: Runtime,
        clients: Mapping[int, Client],
        armed: Callable[[], list[Armed]],
        reader: NativeReader,
    ) -> None:
        """`armed` returns what the arbiter has decided ahead."""
        self.fired = 0
        """How many transitions were carried out."""
        self.followed = 0
        """How many of them followed another one, without the agent in between."""
        self._loop = loop
        self._runtime = runtime
        self._clients = clients
        self._armed = armed
        self._reader = reader
        self._receivers: dict[int, Receiver] = {}
        self._gone: dict[int, int] = {}
        """By key of a connection that was removed: its user; packets of it may be in the ring."""
        self._shots: list[tuple[Client, Armed]] = []
        self._heads = 0
        """How many of them were armed at first; the others follow."""
        self._is_due = False
        """True while `_arm` follows the present callback."""
        self._is_deciding = False
        """True while the arbiter decides what was carried out: the next message waits for that."""
        self._is_stopped = False
        runtime.settle = self.settle
        loop.add_reader(reader.event_fd, self._ready)

    def add(self, fd: int, account: int, receiver: Receiver) -> int:
        """Have the thread read a socket; returns its key, 0: it cannot."""
        key = self._reader.add(fd, account)
        if key:
            self._receivers[key] = receiver
        return key

    def remove(self, key: int) -> None:
        """Have the thread leave a socket alone; what it carried out was taken in (`settle`)."""
        self._gone[key] = self._receivers.pop(key).uid
        if not self._is_stopped:
            self._reader.remove(key)

    def resume(self, key: int) -> None:
        """Read on after a burst."""
        if not self._is_stopped:
            self._reader.resume(key)

    def settle(self) -> None:
        """Disarm; the messages of transitions that were carried out are taken in first."""
        if self._is_stopped or self._is_deciding:
            return
        while self._reader.disarm() >= ArmedState.FIRED and (taken := self._reader.take()):
            self._deliver(taken)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._arm)

    def disarm(self) -> None:
        """Have nothing carried out until the next event."""
        if not self._is_stopped:
            self._reader.disarm()

    def stop(self) -> None:
        """End the thread, and close the descriptors of packets that were not taken."""
        self._loop.remove_reader(self._reader.event_fd)
        self._runtime.settle = lambda: None
        self._is_due = self._is_stopped = True
        while taken := self._reader.take():
            self._drop(taken)
        self._reader.stop()

    def counts(self) -> dict[str, int]:
        """What became of messages that can change a lease (`ReaderCounts`), and `followed`."""
        return {**self._reader.counts(), "followed": self.followed}

    @property
    def event_fd(self) -> int:
        """Readable while the thread has something to take."""
        return self._reader.event_fd

    def take_in(self) -> bool:
        """Take in what the thread has read; False if that was too much for one turn of the loop."""
        return self._is_stopped or self._is_deciding or self._ready()

    def _ready(self) -> bool:
        self._is_due = True
        is_empty = False
        for _ in range(_AT_ONCE):
            taken = self._reader.take()
            if taken is None:
                self._gone.clear()
                is_empty = True
                break
            self._deliver(taken)
        self._arm()
        return is_empty

    def _deliver(self, taken: Taken) -> None:
        receiver = self._receivers.get(taken.key)
        if taken.fired:
            self._fired(taken, receiver)
        elif taken.asked:
            self._decide(taken, receiver)
        elif receiver is not None:
            receiver.receive(taken)
        else:
            self._drop(taken)

    def _fired(self, taken: Taken, receiver: Receiver | None) -> None:
        """Have the arbiter decide what was carried out, at the time when it was."""
        self.fired += 1
        self.followed += taken.shot >= self._heads
        client, armed = self._shots[taken.shot]
        kind = Type.GRANT if armed.grants else Type.REVOKE
        note = lease_note(kind, armed.epoch)
        client.connection.expect(note, is_sent=taken.sent)
        self._decide(taken, receiver)
        if client.connection.expects:
            client.connection.expect(None)
            if not taken.sent:
                client.connection.send(note)  # it may have seen its word already
            self._take_back(client, armed)

    def _decide(self, taken: Taken, receiver: Receiver | None) -> None:
        """Have the arbiter decide about a message at the time when it was read."""
        if receiver is not None:
            self._is_deciding = True
            try:
                with self._runtime.at(taken.at_s):
                    receiver.receive(taken)
            finally:
                self._is_deciding = False

    def _take_back(self, client: Client, armed: Armed) -> None:
        """The arbiter decided otherwise: its word counts."""
        self._runtime.log.error("armed_in_vain", client=str(client), what=repr(armed))
        if armed.grants:
            client.page.close(armed.epoch)
            client.connection.send(lease_note(Type.REVOKE, armed.epoch))
        else:
            client.page.open(armed.epoch)
            client.connection.send(lease_note(Type.GRANT, armed.epoch))

    def _drop(self, taken: Taken) -> None:
        if taken.fds:
            close_later(self._gone.get(taken.key, os.getuid()), taken.fds)

    def _arm(self) -> None:
        """Arm what is certain now, for the next message."""
        self._is_due = False
        if self._is_stopped:
            return
        rows = (row for each in self._armed() if (row := self._row(each)))
        heads = list(islice(rows, HEADS_MAX))
        found = [row[0] for row in heads]
        for row in heads:
            before = row[0][0]
            for shot, each in row[1:]:
                before.next = len(found)
                found.append((shot, each))
                before = shot
        if heads and self._reader.arm([shot for shot, _ in found], len(heads)):
            self._shots = [(self._clients[each.target], each) for _, each in found]
            self._heads = len(heads)

    def _row(self, armed: Armed) -> list[tuple[Shot, Armed]]:
        """A transition for the thread, and those that follow; empty: it is left to Python."""
        row: list[tuple[Shot, Armed]] = []
        words: dict[int, int] = {}
        each: Armed | None = armed
        while each is not None and len(row) <= FOLLOWING_MAX:
            shot = self._shot(each, words)
            if shot is None:
                break
            words[each.target] = shot.wanted
            row.append((shot, each))
            each = each.then
        return row

    def _shot(self, armed: Armed, words: Mapping[int, int]) -> Shot | None:
        """A transition for the thread; `words` are lease words as they will be before it."""
        source, target = self._clients.get(armed.source), self._clients.get(armed.target)
        if source is None or target is None or not target.connection.is_clear:
            return None
        word, closed = words.get(armed.target, target.page.word), armed.epoch << 1
        is_open = bool(word & LEASE_OPEN)
        is_ready = not is_open if armed.grants else word == closed | LEASE_OPEN
        if not (source.connection.key and target.connection.key and is_ready):
            return None
        said = Type.DRAINED if armed.grants else Type.LEASE_REQUEST
        return Shot(
            source.connection.key,
            target.connection.key,
            target.page.address,
            word,
            closed | LEASE_OPEN if armed.grants else closed,
            said if armed.silent_epoch is None else Type.IDLE,
            armed.drained_epoch or armed.silent_epoch or 0,
            sum(1 << gpu for gpu in source.gpus),
            Type.GRANT if armed.grants else Type.REVOKE,
            armed.epoch,
            0,
            _ns(armed.not_before_s, 1),
            _ns(armed.not_after_s, -1),
            _ns(armed.asks_until_s, -1),
        )


def _ns(time_s: float, inwards: int) -> int:
    """A bound in nanoseconds, a little inside the one in seconds."""
    if math.isinf(time_s):
        return -_NEVER_NS if time_s < 0 else _NEVER_NS
    return round(time_s * 1e9) + inwards * _EXACT_NS
