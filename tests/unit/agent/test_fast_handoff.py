"""The whole agent with its native thread: what it fires is what the arbiter decides."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.agent.core.native_reader import ArmedState, Taken
from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.armed import Armed
from moiety.wire.layout import Type
from moiety.wire.messages import DrainedMessage, LeaseNoteMessage
from tests.support.handoff_pair import (
    MESSAGES,
    SETTINGS,
    Pair,
    fired,
    followed,
    hand_over,
    note,
    pair,
)
from tests.support.native_peers import is_built
from tests.support.virtual_agent import no_descriptor_stays
from tests.support.virtual_reader import FOR_EVER_NS, VirtualReader, live, live_calmly, world

pytestmark = pytest.mark.skipif(not is_built(), reason="libmoiety-agent.so is not built")
STEPS = ("take", "arm", "disarm", "resume", "remove")


def test_both_halves_of_a_hand_off_fire() -> None:
    with pair() as both:
        both.guest.say(note(Type.LEASE_REQUEST))
        assert both.notes(both.holder) == [(Type.GRANT, 1), (Type.REVOKE, 1)]
        assert fired(both.here) == 1
        both.drain(both.holder)
        assert both.notes(both.guest) == [(Type.GRANT, 1)]
        assert fired(both.here) == 2
        both.check()


def test_descriptors_that_come_with_the_end_are_closed() -> None:
    with no_descriptor_stays(), pair() as both, Path("/dev/null").open("rb") as null:
        socket.send_fds(both.guest.sock, [b""], [null.fileno()] * 3)
        both.here.settle()
        assert both.guest.is_cut


def test_both_halves_fire_before_the_agent_knows_of_the_first() -> None:
    with pair(FOR_EVER_NS) as both:
        agent = both.here.agent
        assert agent is not None
        hand_over(both)
        assert both.notes(both.guest) == [(Type.GRANT, 1)]
        assert fired(both.here) == 0
        assert [view.state for view in agent.arbiter.tenants()] == ["holding", "idle"]
        agent.runtime.settle()
        assert (fired(both.here), followed(both.here)) == (2, 1)
        assert [view.state for view in agent.arbiter.tenants()] == ["idle", "holding"]


def test_a_holder_that_asks_for_its_next_lease_before_it_drains_hinders_nothing() -> None:
    with pair(FOR_EVER_NS) as both:
        agent = both.here.agent
        assert agent is not None
        hand_over(both, asks=True)
        assert both.notes(both.guest) == [(Type.GRANT, 1)]
        assert fired(both.here) == 0
        agent.runtime.settle()
        assert (fired(both.here), followed(both.here)) == (2, 1)
        assert [view.state for view in agent.arbiter.tenants()] == ["queued", "holding"]


def test_so_it_is_where_the_agent_revoked_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair(FOR_EVER_NS) as both:
        monkeypatch.setattr(both.here.reader, "arm", lambda *_: False)
        both.here.reader.disarm()
        both.guest.say(note(Type.LEASE_REQUEST))
        monkeypatch.undo()
        assert both.here.agent is not None
        both.here.agent.runtime.settle()
        both.here.loop.catch_up()
        assert both.notes(both.holder) == [(Type.GRANT, 1), (Type.REVOKE, 1)]
        both.holder.send(note(Type.LEASE_REQUEST))
        both.here.reader.rest()
        both.holder.send(DrainedMessage(epoch=1, gpu=0))
        both.here.until_rest(0.01)
        assert (fired(both.here), followed(both.here)) == (1, 0)


@pytest.mark.parametrize("asks", [False, True])
def test_each_message_is_decided_at_its_time(monkeypatch: pytest.MonkeyPatch, asks: bool) -> None:
    with pair(FOR_EVER_NS) as both:
        agent = both.here.agent
        assert agent is not None
        hand_over(both, asks=asks)
        take, now_s = VirtualReader.take, both.here.loop.time()
        times = iter([now_s - 0.003, now_s - 0.002, now_s - 0.001])

        def then() -> Taken | None:
            taken = take(both.here.reader)
            return taken and taken._replace(at_s=next(times, now_s))

        monkeypatch.setattr(both.here.reader, "take", then)
        decided: list[tuple[float, str]] = []
        handle = agent.arbiter.handle

        def noted(at_s: float, event: ev.Event) -> Iterator[do.Instruction]:
            decided.append((at_s, type(event).__name__))
            return handle(at_s, event)

        monkeypatch.setattr(agent.arbiter, "handle", noted)
        agent.runtime.settle()
        names = ["LeaseRequest", *["LeaseRequest"] * asks, "Drained"]
        assert decided == [
            (now_s - 0.003 + 0.001 * number, name) for number, name in enumerate(names)
        ]


def test_a_process_that_ends_after_both_fired_was_heard_first() -> None:
    with pair(FOR_EVER_NS) as both:
        agent = both.here.agent
        assert agent is not None
        hand_over(both)
        client = next(c for c in agent.clients.by_number.values() if c.pid == both.holder.pid)
        agent.clients.leave(client, "it ended")
        assert followed(both.here) == 1
        both.check()


def test_the_second_half_that_was_not_decided_is_taken_back() -> None:
    with world(SETTINGS, FOR_EVER_NS) as here:
        both = Pair(here)
        assert here.agent is not None
        assert here.agent.handoff is not None
        guest = next(c for c in here.agent.clients.by_number.values() if c.pid == both.guest.pid)
        wrong = Armed(guest.number, 1, 1, None, then=Armed(1, guest.number, 5, 0))
        here.agent.handoff._armed = lambda: [wrong]
        told: list[str] = []
        here.log.error = lambda event, **_: told.append(event)  # type: ignore[method-assign]
        here.agent.runtime.settle()
        here.loop.catch_up()
        both.guest.send(note(Type.LEASE_REQUEST))
        both.here.reader.rest()
        both.holder.say(DrainedMessage(epoch=0, gpu=0))
        assert told == ["armed_in_vain"]
        assert both.notes(both.holder) == [(Type.GRANT, 1), (Type.REVOKE, 1)]
        assert both.notes(both.guest) == [(Type.GRANT, 5), (Type.REVOKE, 5)]
        assert not guest.page.is_open


FOLLOW = {"holder drains", "holder drains all"}
"""With these both halves happen before the agent wakes up, beside some step."""


def whole_handoff(
    monkeypatch: pytest.MonkeyPatch,
    message: Callable[[Pair], None],
    at: int,
    *,
    before: bool,
    hold_ns: int,
) -> tuple[int, int]:
    """A hand-off there and back; a message comes beside one step of Python.

    Returns the steps, and how many transitions followed another one.
    """
    steps = 0

    def beside(step: Callable[..., object]) -> Callable[..., object]:
        def taken(*arguments: object) -> object:
            nonlocal steps
            mine, steps = steps == at, steps + 1
            if mine and before:
                said()
            result = step(*arguments)
            if mine and not before:
                said()
            return result

        return taken

    with pair(hold_ns) as both:
        reader = both.here.reader

        def said() -> None:
            message(both)
            both.here.reader.until_read()

        with monkeypatch.context() as patched:
            for name in STEPS:
                patched.setattr(reader, name, beside(getattr(reader, name)))
            for process in (both.guest, both.holder) * 2:
                if not process.is_cut:
                    process.say(note(Type.LEASE_REQUEST))
                    both.check()
                other = both.holder if process is both.guest else both.guest
                if not other.is_cut:
                    both.drain(other)
                    both.check()
            both.here.until_rest(0.2)
        return steps, followed(both.here)


@pytest.mark.slow
@pytest.mark.parametrize("hold_ns", [0, FOR_EVER_NS])
@pytest.mark.parametrize("name", MESSAGES)
def test_any_message_beside_any_step(
    monkeypatch: pytest.MonkeyPatch, name: str, hold_ns: int
) -> None:
    """The log of this machine is strict: a transition that was not decided is an error there."""
    message = MESSAGES[name]
    steps, _ = whole_handoff(monkeypatch, message, -1, before=True, hold_ns=hold_ns)
    assert steps > 20
    met = 0
    for at in range(steps):
        for before in (True, False):
            met += whole_handoff(monkeypatch, message, at, before=before, hold_ns=hold_ns)[1]
    assert met > 0 or name not in FOLLOW


@pytest.mark.slow
@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("asked", [True, False])
def test_any_message_within_a_hand_off_that_the_agent_does_not_know_of(
    name: str, asked: bool
) -> None:
    """It comes between both halves, or after them, before the agent wakes up."""
    with pair(FOR_EVER_NS) as both:
        if asked:
            both.guest.send(note(Type.LEASE_REQUEST))
            both.here.reader.rest()
        else:
            hand_over(both)
        MESSAGES[name](both)
        both.here.reader.rest()
        if asked and not both.holder.is_cut:
            both.holder.send(DrainedMessage(epoch=1, gpu=0))
        both.here.until_rest(0.2)
        both.check()


def test_what_the_arbiter_did_not_decide_is_taken_back() -> None:
    with world(SETTINGS) as here:
        both = Pair(here)
        assert here.agent is not None
        assert here.agent.handoff is not None
        guest = next(c for c in here.agent.clients.by_number.values() if c.pid == both.guest.pid)
        wrong = Armed(1, guest.number, 5, 1)
        here.agent.handoff._armed = lambda: [wrong]
        told: list[str] = []
        here.log.error = lambda event, **_: told.append(event)  # type: ignore[method-assign]
        here.agent.runtime.settle()
        here.loop.catch_up()
        both.holder.say(DrainedMessage(epoch=1, gpu=0))
        assert told == ["armed_in_vain"]
        assert not guest.page.is_open
        assert both.notes(both.guest) == [(Type.GRANT, 5), (Type.REVOKE, 5)]


def test_a_process_that_ends_after_it_fired_was_heard_first() -> None:
    """Its end is known by another descriptor, which may be looked at first."""
    with pair() as both:
        both.guest.say(note(Type.LEASE_REQUEST))
        both.holder.send(DrainedMessage(epoch=1, gpu=0))
        both.here.reader.rest()
        agent = both.here.agent
        assert agent is not None
        client = next(c for c in agent.clients.by_number.values() if c.pid == both.holder.pid)
        agent.clients.leave(client, "it ended")
        assert both.notes(both.guest) == [(Type.GRANT, 1)]


def test_what_is_queued_for_a_program_is_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair() as both:
        agent = both.here.agent
        assert agent is not None
        client = next(c for c in agent.clients.by_number.values() if c.pid == both.holder.pid)
        disarmed: list[ArmedState] = []
        disarm = VirtualReader.disarm
        monkeypatch.setattr(
            both.here.reader, "disarm", lambda: disarmed.append(disarm(both.here.reader))
        )
        while client.connection.is_clear:
            client.connection.send(note(Type.ALLOW_ONE, 1).encode())
        assert disarmed == [ArmedState.ARMED]
        monkeypatch.undo()
        asked = note(Type.LEASE_REQUEST)
        both.guest.say(asked)
        assert fired(both.here) == 0
        both.holder.inbox.clear()
        while both.holder.heard(LeaseNoteMessage):
            notes = both.notes(both.holder)
            both.holder.inbox.clear()
            both.here.settle()
        assert notes[-1] == (Type.REVOKE, 1)
        both.holder.inbox.append(note(Type.REVOKE, 1))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_days(part: int) -> None:
    met: Counter[str] = Counter()
    with no_descriptor_stays():
        for seed in range(part, 120, 4):
            met["fired"] += live(seed, classes=bool(seed % 8 >= 4), holds=bool(seed % 16 >= 8))[1]
    assert met["fired"]


@pytest.mark.slow
@pytest.mark.parametrize("holds", [False, True])
def test_many_calm_days(holds: bool) -> None:
    """There both halves of a hand-off happen without the agent, at least where it sleeps."""
    met: Counter[str] = Counter()
    with no_descriptor_stays():
        for seed in range(60):
            fired_, followed_ = live_calmly(seed, holds=holds)
            met["fired"] += fired_
            met["followed"] += followed_
    assert met["fired"] > met["followed"]
    assert met["followed"] or not holds
