"""Two transitions that the agent's native thread carries out in a row, without Python."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterator

import pytest

from moiety.agent.core.native_reader import ArmedState
from moiety.wire.codec import lease_note
from moiety.wire.layout import Type
from moiety.wire.messages import DrainedMessage
from tests.support.native_chain import (
    ASKS,
    DRAINED,
    FOR_EVER_NS,
    HELD,
    NEXT,
    Chain,
    all_heard,
)
from tests.support.native_peers import BOB, Peer, is_built, settle, take

pytestmark = pytest.mark.skipif(not is_built(), reason="libmoiety-agent.so is not built")


BEFORE, CLOSED, BOTH = (
    (HELD << 1 | 1, NEXT - 1 << 1),
    (HELD << 1, NEXT - 1 << 1),
    (HELD << 1, NEXT << 1 | 1),
)
Begin = Callable[..., Chain]


@pytest.fixture
def begin() -> Iterator[Begin]:
    with contextlib.ExitStack() as stack:

        def one(hold_ns: int = FOR_EVER_NS, ring_bytes: int = 1 << 16) -> Chain:
            made = Chain(hold_ns, ring_bytes)
            stack.callback(made.close)
            return made

        yield one


def test_both_fire_before_python_wakes(begin: Begin) -> None:
    chain = begin()
    chain.arm()
    chain.ask()
    assert (chain.words, chain.wakes) == (CLOSED, False)
    chain.drain()
    assert chain.words == BOTH
    first, second = take(chain.reader), take(chain.reader)
    assert [(t.packet, t.fired, t.sent, t.shot) for t in (first, second)] == [
        (ASKS, True, True, 0),
        (DRAINED, True, True, 1),
    ]
    assert first.at_s <= second.at_s
    assert (chain.wakes, chain.reader.disarm()) == (False, ArmedState.IDLE)


@pytest.mark.parametrize("hold_ns", [0, FOR_EVER_NS])
def test_a_holder_may_ask_for_its_next_lease_first(begin: Begin, hold_ns: int) -> None:
    chain = begin(hold_ns)
    chain.asks_until_ns = FOR_EVER_NS
    chain.arm()
    chain.ask()
    chain.holder.send(ASKS)
    chain.until_read()
    assert (chain.words, chain.wakes) == (CLOSED, hold_ns == 0)
    assert chain.reader.disarm() is ArmedState.FIRED
    chain.close_words()
    chain.take_all()
    chain.arm()
    chain.ask()
    chain.holder.send(ASKS)
    chain.drain()
    assert chain.words == BOTH
    assert chain.reader.disarm() is ArmedState.BOTH_FIRED
    taken = [each for _ in range(3) if (each := chain.reader.take())]
    assert [(t.packet, t.fired, t.asked, t.shot) for t in taken] == [
        (ASKS, True, False, 0),
        (ASKS, False, True, 0),
        (DRAINED, True, False, 1),
    ]
    assert (chain.wakes, chain.reader.disarm()) == (False, ArmedState.IDLE)


def test_a_request_before_the_drain_counts_as_what_python_takes_in_first(begin: Begin) -> None:
    chain = begin()
    chain.asks_until_ns = FOR_EVER_NS
    _, opens = chain.shots()
    chain.held.close(HELD)
    assert chain.reader.arm([opens])
    chain.holder.send(ASKS)
    chain.until_read()
    assert chain.reader.disarm() is ArmedState.FIRED
    taken = chain.reader.take()
    assert taken is not None
    assert taken.asked
    assert chain.reader.disarm() is ArmedState.IDLE


def test_it_may_not_ask_twice(begin: Begin) -> None:
    chain = begin()
    chain.asks_until_ns = FOR_EVER_NS
    chain.arm()
    chain.ask()
    chain.holder.send(ASKS, ASKS, DRAINED)
    taken = [take(chain.reader) for _ in range(4)]
    assert [t.fired for t in taken] == [True, False, False, False]
    assert [t.asked for t in taken] == [False, True, False, False]
    assert chain.words == CLOSED


@pytest.mark.parametrize("by", ["another", "late", "with a descriptor"])
def test_no_other_request_is_let_pass(begin: Begin, by: str) -> None:
    chain = begin()
    chain.asks_until_ns = 1 if by == "late" else FOR_EVER_NS
    chain.arm()
    chain.ask()
    if by == "with a descriptor":
        socket.send_fds(chain.holder.theirs, [ASKS], [0])
    else:
        (chain.waiter if by == "another" else chain.holder).send(ASKS)
    chain.until_read()
    assert chain.wakes
    chain.holder.send(DRAINED)
    chain.until_read()
    assert chain.words == CLOSED


def test_the_note_of_the_grant_is_sent_once_by_the_thread_or_left_to_python(begin: Begin) -> None:
    for _ in range(20):
        chain = begin()
        chain.arm()
        chain.ask()
        chain.holder.send(DRAINED)
        chain.until_read()
        taken = [each for _ in range(2) if (each := chain.reader.take())]
        told = [lease_note(Type.GRANT, NEXT)] if taken[1].sent else []
        assert (taken[1].fired, chain.words) == (True, BOTH)
        assert all_heard(chain.waiter) == told


def test_python_wakes_after_a_time_and_the_second_still_fires(begin: Begin) -> None:
    chain = begin(hold_ns=1)
    chain.arm()
    chain.ask()
    assert select.select([chain.reader.event_fd], [], [])[0]
    assert chain.words == CLOSED
    chain.drain()
    assert chain.words == BOTH


def test_without_a_time_python_wakes_at_once(begin: Begin) -> None:
    chain = begin(hold_ns=0)
    chain.arm()
    chain.ask()
    assert (chain.words, chain.wakes) == (CLOSED, True)
    chain.drain()
    assert chain.words == BOTH


def test_the_second_does_not_fire_before_the_first(begin: Begin) -> None:
    chain = begin()
    chain.arm()
    chain.holder.send(DRAINED)
    assert (take(chain.reader).fired, chain.words) == (False, BEFORE)


def test_the_first_alone_has_no_second(begin: Begin) -> None:
    chain = begin()
    closes, _ = chain.shots()
    closes.next = 0
    assert chain.reader.arm([closes])
    chain.ask()
    assert chain.wakes
    chain.holder.send(DRAINED)
    settle(chain.reader, chain.holder)
    assert chain.words == CLOSED


@pytest.mark.parametrize(
    "packet", [b"another", ASKS, DrainedMessage(epoch=HELD - 1, gpu=0).encode(), DRAINED[:-1]]
)
def test_another_packet_between_them_ends_it_and_wakes_python(begin: Begin, packet: bytes) -> None:
    chain = begin()
    chain.arm()
    chain.ask()
    chain.holder.send(packet, DRAINED)
    assert [take(chain.reader).fired for _ in range(3)] == [True, False, False]
    assert chain.words == CLOSED


def test_a_packet_of_a_third_between_them_ends_it(begin: Begin) -> None:
    chain = begin()
    chain.arm()
    chain.ask()
    settle(chain.reader)
    assert chain.wakes
    chain.holder.send(DRAINED)
    settle(chain.reader, chain.holder)
    assert chain.words == CLOSED


def test_a_holder_that_ends_between_them_wakes_python(begin: Begin) -> None:
    chain = begin()
    chain.arm()
    chain.ask()
    chain.holder.theirs.close()
    assert take(chain.reader).fired
    assert take(chain.reader).ended
    assert chain.words == CLOSED


@pytest.mark.parametrize("step", ["disarm", "take", "remove"])
def test_each_call_of_python_between_them_ends_it(begin: Begin, step: str) -> None:
    chain = begin()
    chain.arm()
    chain.ask()
    if step == "disarm":
        assert chain.reader.disarm() is ArmedState.FIRED
    elif step == "take":
        taken = chain.reader.take()
        assert taken is not None
        assert (taken.packet, taken.fired) == (ASKS, True)
    else:
        chain.reader.remove(chain.waiter.key)
    chain.holder.send(DRAINED)
    assert take(chain.reader).fired is (step != "take")
    assert chain.words == CLOSED


def test_nothing_is_armed_in_place_of_what_follows(begin: Begin) -> None:
    chain = begin()
    chain.arm()
    chain.ask()
    assert not chain.reader.arm(chain.shots(), 1)
    chain.holder.send(DRAINED)
    settle(chain.reader, chain.holder)
    assert chain.words == CLOSED


def test_disarming_says_how_far_it_fired(begin: Begin) -> None:
    chain = begin()
    chain.arm()
    chain.ask()
    chain.drain()
    assert [chain.reader.disarm() for _ in range(2)] == [ArmedState.BOTH_FIRED] * 2
    assert take(chain.reader).fired
    assert chain.reader.disarm() is ArmedState.FIRED
    assert take(chain.reader).fired
    assert chain.reader.disarm() is ArmedState.IDLE


def test_a_first_note_that_finds_no_room_ends_it(begin: Begin) -> None:
    """Python sends it; the answer to it is handled after that."""
    chain = begin()
    with contextlib.suppress(BlockingIOError):
        while chain.holder.ours.send(b"x" * 1000):
            pass
    chain.arm()
    chain.waiter.send(ASKS)
    came = take(chain.reader)
    assert (came.fired, came.sent, chain.words) == (True, False, CLOSED)
    chain.holder.send(DRAINED)
    assert (take(chain.reader).fired, chain.words) == (False, CLOSED)


def test_a_second_word_that_is_another_meanwhile_is_left_alone(begin: Begin) -> None:
    chain = begin()
    chain.arm()
    chain.ask()
    chain.next.close(NEXT + 5)
    chain.holder.send(DRAINED)
    assert [take(chain.reader).fired for _ in range(2)] == [True, False]
    assert chain.words == (HELD << 1, NEXT + 5 << 1)


def test_a_ring_that_is_full_after_the_first_wakes_python(begin: Begin) -> None:
    """The thread waits for room before it can read the second."""
    chain = begin(ring_bytes=0)
    chain.arm()
    chain.ask()
    chain.holder.send(DRAINED)
    assert [take(chain.reader).fired for _ in range(2)] == [True, False]
    assert chain.words == CLOSED


def test_one_hand_off_after_another(begin: Begin) -> None:
    """The time of the first does not end that of the second."""
    chain = begin()
    for _ in range(3):
        chain.close_words()
        chain.arm()
        chain.ask()
        assert not chain.wakes
        chain.drain()
        assert [take(chain.reader).shot for _ in range(2)] == [0, 1]


def test_what_follows_is_among_what_is_given(begin: Begin) -> None:
    chain = begin()
    closes, opens = chain.shots()
    closes.next = 2
    assert not chain.reader.arm([closes, opens], 1)
    assert not chain.reader.arm([closes], 2)
    other = Peer(chain.reader, BOB)
    chain.waiter.send(ASKS)
    assert (take(chain.reader).fired, chain.words) == (False, BEFORE)
    other.close()
