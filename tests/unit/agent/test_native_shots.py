"""What the agent's native thread carries out of what is armed, and when it does not."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from moiety.agent.core.lease_page import LeasePage
from moiety.agent.core.native_reader import ArmedState, NativeReader, Shot
from moiety.testing.waiting import until
from moiety.wire.codec import decode, lease_note
from moiety.wire.layout import NO_GPU, Type
from moiety.wire.messages import DrainedMessage, LeaseNoteMessage
from tests.support.native_peers import Connect, Peer, close_all, is_built, settle, take

pytestmark = pytest.mark.skipif(not is_built(), reason="libmoiety-agent.so is not built")
EPOCH = 7


DRAINED = DrainedMessage(epoch=EPOCH, gpu=0, resident_bytes=5).encode()
WANTS = LeaseNoteMessage(Type.LEASE_REQUEST, 0, 0).encode()


def granting(source: Peer, target: Peer, page: LeasePage, **changed: int) -> Shot:
    shot = Shot(
        source.key, target.key, page.address, page.word, EPOCH << 1 | 1, Type.DRAINED, EPOCH, 1,
        Type.GRANT, EPOCH, 0, 0, (1 << 63) - 1, 0,
    )  # fmt: skip
    for name, value in changed.items():
        setattr(shot, name, value)
    return shot


@pytest.fixture
def page() -> Iterator[LeasePage]:
    made = LeasePage(EPOCH - 1)
    yield made
    made.dispose()


def test_what_is_armed_fires_once(reader: NativeReader, connect: Connect, page: LeasePage) -> None:
    source, target = connect(), connect()
    assert reader.arm([granting(source, target, page)])
    source.send(DRAINED, DRAINED)
    came = take(reader)
    assert (came.packet, came.fired, came.sent, came.shot) == (DRAINED, True, True, 0)
    assert (page.is_open, page.epoch) == (True, EPOCH)
    assert decode(target.theirs.recv(100)) == LeaseNoteMessage(Type.GRANT, 0, EPOCH)
    assert not take(reader).fired
    assert reader.disarm() is ArmedState.IDLE


def test_a_lease_request_closes_the_word(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    page.open(EPOCH)
    closes = granting(source, target, page, type=Type.LEASE_REQUEST, wanted=EPOCH << 1)
    closes.note = Type.REVOKE
    reader.arm([closes])
    source.send(WANTS)
    assert take(reader).fired
    assert (page.is_open, page.epoch) == (False, EPOCH)
    assert target.theirs.recv(100) == lease_note(Type.REVOKE, EPOCH)


@pytest.mark.parametrize(
    "packet",
    [
        DrainedMessage(epoch=EPOCH + 1, gpu=0).encode(),
        DrainedMessage(epoch=EPOCH, gpu=1).encode(),
        DrainedMessage(epoch=EPOCH, gpu=31).encode(),
        DrainedMessage(epoch=EPOCH, gpu=32).encode(),
        DrainedMessage(epoch=EPOCH, gpu=NO_GPU - 1).encode(),
        DRAINED[:-1],
        DRAINED + b"\0",
        DRAINED[:2] + b"\xff\xff" + DRAINED[4:],
        DRAINED[:4],
        b"\0",
        WANTS,
        lease_note(Type.GRANT, EPOCH),
    ],
)
def test_no_other_message_fires(
    reader: NativeReader, connect: Connect, page: LeasePage, packet: bytes
) -> None:
    source, target = connect(), connect()
    reader.arm([granting(source, target, page)])
    source.send(packet)
    assert (take(reader).fired, page.word) == (False, EPOCH - 1 << 1)


def test_a_message_with_a_descriptor_or_of_another_does_not_fire(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    reader.arm([granting(source, target, page)])
    target.send(DRAINED)
    assert not take(reader).fired
    reader.arm([granting(source, target, page)])
    socket.send_fds(source.theirs, [DRAINED], [0])
    came = take(reader)
    close_all(came)
    assert (came.fired, page.is_open) == (False, False)


@pytest.mark.parametrize("bound", [{"not_before_ns": (1 << 63) - 1}, {"not_after_ns": 1}])
def test_a_message_at_another_time_does_not_fire(
    reader: NativeReader, connect: Connect, page: LeasePage, bound: dict[str, int]
) -> None:
    source, target = connect(), connect()
    reader.arm([granting(source, target, page, **bound)])
    source.send(DRAINED)
    assert (take(reader).fired, page.is_open) == (False, False)


def test_a_word_that_is_another_meanwhile_is_left_alone(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    reader.arm([granting(source, target, page, expected=4711)])
    source.send(DRAINED)
    assert (take(reader).fired, page.word) == (False, EPOCH - 1 << 1)
    with pytest.raises(BlockingIOError):
        target.theirs.recv(100)


def test_nothing_is_armed_while_a_packet_waits(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    source.send(b"before")
    settle(reader, source)
    assert not reader.arm([granting(source, target, page)])
    source.send(DRAINED)
    assert not any(take(reader).fired for _ in range(3))


def test_another_packet_first_keeps_it_from_firing(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    reader.arm([granting(source, target, page)])
    target.send(b"first")
    settle(reader, target)
    source.send(DRAINED)
    assert not any(take(reader).fired for _ in range(3))


def test_disarming_says_what_happened(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    assert reader.disarm() is ArmedState.IDLE
    reader.arm([granting(source, target, page)])
    assert [reader.disarm(), reader.disarm()] == [ArmedState.ARMED, ArmedState.IDLE]
    source.send(DRAINED)
    assert not take(reader).fired
    reader.arm([granting(source, target, page)])
    source.send(DRAINED)
    settle(reader, source)
    assert [reader.disarm(), reader.disarm()] == [ArmedState.FIRED] * 2
    assert take(reader).fired
    assert reader.disarm() is ArmedState.IDLE


@pytest.mark.parametrize(("epoch", "fires"), [(EPOCH, True), (EPOCH - 1, False)])
def test_a_holder_that_is_silent_closes_its_word(
    reader: NativeReader, connect: Connect, page: LeasePage, epoch: int, fires: bool
) -> None:
    holder = connect()
    page.open(EPOCH)
    closes = granting(holder, holder, page, type=Type.IDLE, wanted=EPOCH << 1, note=Type.REVOKE)
    reader.arm([closes])
    holder.send(lease_note(Type.IDLE, epoch))
    assert take(reader).fired is fires
    assert page.word == EPOCH << 1 | (not fires)
    if fires:
        assert holder.theirs.recv(100) == lease_note(Type.REVOKE, EPOCH)


def test_what_became_of_messages_is_counted(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    source.send(WANTS)
    take(reader)
    source.send(b"before", DRAINED)
    settle(reader, source)
    while reader.take():
        pass
    reader.arm([granting(source, target, page)])
    target.send(DRAINED)
    take(reader)
    reader.arm([granting(source, target, page, asks_until_ns=(1 << 63) - 1)])
    source.send(WANTS, DRAINED)
    target.theirs.setblocking(True)
    assert target.theirs.recv(100) == lease_note(Type.GRANT, EPOCH)
    assert reader.counts() == {"fired": 1, "asked": 1, "unread": 1, "unarmed": 1, "other": 1}


def test_a_drain_fires_nothing_once_it_may_be_reopened_for_a_request_before_it(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    until_ns = time.monotonic_ns() + 50_000_000
    reader.arm([granting(source, target, page, asks_until_ns=until_ns)])
    source.send(WANTS)
    settle(reader, source)
    until(lambda: time.monotonic_ns() > until_ns, "the time for which that is sure is over")
    source.send(DRAINED)
    settle(reader, source)
    assert not any(came.fired for came in iter(reader.take, None))
    assert not page.is_open


def test_removing_a_connection_disarms(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    reader.arm([granting(source, target, page)])
    reader.remove(target.key)
    source.send(DRAINED)
    assert (take(reader).fired, page.is_open) == (False, False)


def test_a_note_that_finds_no_room_is_left_to_python(
    reader: NativeReader, connect: Connect, page: LeasePage
) -> None:
    source, target = connect(), connect()
    with contextlib.suppress(BlockingIOError):
        while target.ours.send(b"x" * 1000):
            pass
    reader.arm([granting(source, target, page)])
    source.send(DRAINED)
    came = take(reader)
    assert (came.fired, came.sent, page.is_open) == (True, False, True)
