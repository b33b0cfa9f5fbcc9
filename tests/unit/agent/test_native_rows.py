"""Four transitions that the agent's native thread carries out in a row, while Python is late."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from moiety.agent.core.native_reader import Shot
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
    take_now,
)
from tests.support.native_peers import is_built

pytestmark = pytest.mark.skipif(not is_built(), reason="libmoiety-agent.so is not built")


class Row(Chain):
    """The waiter of a chain asks again after it was silent: four in a row, for two words."""

    def shots(self) -> list[Shot]:
        """The holder is silent, and drains; the waiter gets the lease, which is taken back."""
        holder, waiter = self.holder.key, self.waiter.key
        held, next_ = self.held.address, self.next.address
        said = Type.IDLE, Type.DRAINED, Type.LEASE_REQUEST, Type.DRAINED
        notes = Type.REVOKE, Type.GRANT, Type.REVOKE, Type.GRANT
        ends = (holder, holder), (holder, waiter), (holder, waiter), (waiter, holder)
        words = (
            (held, HELD << 1 | 1, HELD << 1),
            (next_, NEXT - 1 << 1, NEXT << 1 | 1),
            (next_, NEXT << 1 | 1, NEXT << 1),
            (held, HELD << 1, HELD + 1 << 1 | 1),
        )
        epochs = HELD, HELD, 0, NEXT
        return [
            Shot(
                *ends[i], *words[i], said[i], epochs[i], 1, notes[i], words[i][2] >> 1,
                (i + 1) % 4, 0, FOR_EVER_NS, self.asks_until_ns,
            )
            for i in range(4)
        ]  # fmt: skip

    def run(self, until: int, after: int = 0) -> None:
        """Some messages of the four; each is sent once the one before it was read."""
        messages = (
            (self.holder, lease_note(Type.IDLE, HELD)),
            (self.holder, DRAINED),
            (self.holder, ASKS),
            (self.waiter, DrainedMessage(epoch=NEXT, gpu=0).encode()),
        )
        for peer, message in messages[after:until]:
            peer.send(message)
            self.until_read()


@pytest.fixture
def begin_row() -> Iterator[Callable[..., Row]]:
    with contextlib.ExitStack() as stack:

        def one(hold_ns: int = FOR_EVER_NS) -> Row:
            made = Row(hold_ns)
            stack.callback(made.close)
            made.arm()
            return made

        yield one


@pytest.mark.parametrize("hold_ns", [0, FOR_EVER_NS])
def test_four_fire_in_a_row(begin_row: Callable[..., Row], hold_ns: int) -> None:
    row = begin_row(hold_ns)
    row.run(3)
    assert row.wakes is (hold_ns == 0)
    row.run(4, after=3)
    assert row.words == (HELD + 1 << 1 | 1, NEXT << 1)
    taken = [take_now(row.reader) for _ in range(4)]
    assert [(t.fired, t.shot) for t in taken] == [(True, i) for i in range(4)]
    assert [t.at_s for t in taken] == sorted(t.at_s for t in taken)
    assert row.reader.take() is None


def test_the_note_of_a_grant_is_sent_before_that_of_the_revoke_after_it(
    begin_row: Callable[..., Row],
) -> None:
    """Python takes them in much later, and need not send any of them again."""
    row = begin_row()
    row.run(3)
    assert all_heard(row.waiter) == [lease_note(Type.GRANT, NEXT), lease_note(Type.REVOKE, NEXT)]
    taken = [take_now(row.reader) for _ in range(3)]
    assert [t.sent for t in taken] == [True] * 3


def test_the_note_that_python_sends_is_not_overtaken(begin_row: Callable[..., Row]) -> None:
    """There is no room for the note of the grant, so the revoke that is armed does not fire."""
    row = begin_row()
    with contextlib.suppress(BlockingIOError):
        while row.waiter.ours.send(b"x" * 1000):
            pass
    row.run(3)
    taken = [take_now(row.reader) for _ in range(3)]
    assert [(t.fired, t.sent) for t in taken] == [(True, True), (True, False), (False, False)]
    assert row.words == (HELD << 1, NEXT << 1 | 1)


def test_nothing_follows_a_drain_before_which_the_holder_asked(
    begin_row: Callable[..., Row],
) -> None:
    """It gets its lease back as soon as it has drained, and that is for Python to decide."""
    row = begin_row()
    row.take_all()
    row.asks_until_ns = FOR_EVER_NS
    row.arm()
    row.run(1)
    row.holder.send(ASKS)
    row.until_read()
    row.holder.send(DRAINED, ASKS)
    row.until_read()
    taken = [take_now(row.reader) for _ in range(4)]
    assert [(t.fired, t.asked) for t in taken] == [
        (True, False), (False, True), (True, False), (False, False),
    ]  # fmt: skip
    assert row.words == (HELD << 1, NEXT << 1 | 1)


def test_what_python_takes_meanwhile_ends_the_row(begin_row: Callable[..., Row]) -> None:
    row = begin_row()
    row.run(2)
    assert take_now(row.reader).fired
    row.holder.send(ASKS)
    row.until_read()
    assert [take_now(row.reader).fired for _ in range(2)] == [True, False]
    assert row.words == (HELD << 1, NEXT << 1 | 1)
