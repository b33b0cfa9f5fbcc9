"""Two programs that take a GPU from each other, beside an agent with its native thread."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moiety.arbiter.settings import Settings
from moiety.model.share import Share
from moiety.wire.layout import NO_GPU, Type
from moiety.wire.messages import AmountMessage, DrainedMessage, LeaseNoteMessage, PinnedMessage
from tests.support.liar import Liar
from tests.support.virtual_reader import NativeWorld, world

SETTINGS = Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)


def note(kind: Type, epoch: int = 0) -> LeaseNoteMessage:
    return LeaseNoteMessage(kind, 0, epoch)


class Pair:
    """A program that holds, and one of the latency class that comes and goes."""

    def __init__(self, here: NativeWorld) -> None:
        self.here = here
        self.holder, self.guest = Liar(here), Liar(here, share=Share(latency=True))
        for each in (self.holder, self.guest):
            each.attach()
        self.holder.say(note(Type.LEASE_REQUEST))
        assert self.notes(self.holder) == [(Type.GRANT, 1)]
        here.until_rest(0.01)

    @staticmethod
    def notes(process: Liar) -> list[tuple[int, int]]:
        """What a process was told of its lease."""
        told = process.heard(LeaseNoteMessage)
        return [(each.type, each.epoch) for each in told]

    def drain(self, process: Liar, epoch: int = 0) -> None:
        """Answer the last revoke."""
        last = self.notes(process)[-1:]
        number = epoch or (last[0][1] if last else 1)
        process.say(DrainedMessage(epoch=number, gpu=0))

    def check(self) -> None:
        """Lease words, notes and the arbiter agree, once it has taken in what happened."""
        agent = self.here.agent
        assert agent is not None
        agent.runtime.settle()
        for view in agent.arbiter.tenants():
            client = agent.clients.by_number[view.tenant]
            assert client.page.is_open == (view.state in ("holding", "undrainable")), view
            process = self.holder if client.pid == self.holder.pid else self.guest
            told = self.notes(process)
            assert len(told) == len(set(told)), told
            if told and not process.is_cut:
                last = Type.GRANT if client.page.is_open else Type.REVOKE
                assert told[-1] == (last, client.page.epoch), told


@contextmanager
def pair(hold_ns: int = 0) -> Iterator[Pair]:
    with world(SETTINGS, hold_ns) as here:
        made = Pair(here)
        yield made
        made.check()


def fired(here: NativeWorld) -> int:
    assert here.agent is not None
    assert here.agent.handoff is not None
    return here.agent.handoff.fired


def followed(here: NativeWorld) -> int:
    assert here.agent is not None
    assert here.agent.handoff is not None
    return here.agent.handoff.followed


def hand_over(both: Pair, *, asks: bool = False) -> None:
    """The guest asks and the holder drains; nothing but the thread runs.

    If it `asks`, the holder wants its next lease before it drains.
    """
    both.guest.send(note(Type.LEASE_REQUEST))
    both.here.reader.rest()
    assert both.notes(both.holder) == [(Type.GRANT, 1), (Type.REVOKE, 1)]
    if asks:
        both.holder.send(note(Type.LEASE_REQUEST))
    both.holder.send(DrainedMessage(epoch=1, gpu=0))
    select.select([both.here.reader.event_fd], [], [])  # the guest is told a moment later


MESSAGES: dict[str, Callable[[Pair], None]] = {
    "guest asks": lambda both: both.guest.send(note(Type.LEASE_REQUEST)),
    "guest restores": lambda both: both.guest.send(note(Type.RESTORED)),
    "guest drains": lambda both: both.guest.send(DrainedMessage(epoch=1, gpu=0)),
    "guest falls idle": lambda both: both.guest.send(note(Type.IDLE, 1)),
    "guest leaves": lambda both: both.guest.sock.shutdown(socket.SHUT_RDWR),
    "holder drains": lambda both: both.holder.send(DrainedMessage(epoch=1, gpu=0)),
    "holder drains all": lambda both: both.holder.send(DrainedMessage(epoch=1, gpu=NO_GPU)),
    "holder drained before": lambda both: both.holder.send(DrainedMessage(epoch=0, gpu=0)),
    "holder asks": lambda both: both.holder.send(note(Type.LEASE_REQUEST)),
    "holder falls idle": lambda both: both.holder.send(note(Type.IDLE, 1)),
    "holder is busy": lambda both: both.holder.send(note(Type.BUSY, 1)),
    "holder is pinned": lambda both: both.holder.send(PinnedMessage(reason="a")),
    "holder detaches": lambda both: both.holder.send(AmountMessage(Type.DETACH, 0, 0)),
    "holder says nonsense": lambda both: both.holder.send_raw(b"\1"),
    "holder leaves": lambda both: both.holder.sock.shutdown(socket.SHUT_RDWR),
}
