"""Whole cycles of hand-offs that the native thread carries out before the agent knows of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moiety.wire.layout import Type
from moiety.wire.messages import DrainedMessage, IdleTimeoutMessage
from tests.support.handoff_pair import MESSAGES, Pair, fired, hand_over, note, pair
from tests.support.native_peers import is_built
from tests.support.virtual_reader import FOR_EVER_NS

pytestmark = pytest.mark.skipif(not is_built(), reason="libmoiety-agent.so is not built")


CYCLE: tuple[Callable[[Pair], None], ...] = (
    lambda both: both.guest.send(note(Type.IDLE, 1)),
    lambda both: both.guest.send(DrainedMessage(epoch=1, gpu=0)),
    lambda both: both.guest.send(note(Type.LEASE_REQUEST)),
    lambda both: both.holder.send(DrainedMessage(epoch=2, gpu=0)),
)
"""The guest falls silent, the holder gets its lease, and the guest asks for it again."""


def begin_cycle(both: Pair) -> None:
    """The guest holds and is watched, since the holder waits."""
    hand_over(both, asks=True)
    both.here.settle()
    assert [each.idle_us > 0 for each in both.guest.heard(IdleTimeoutMessage)][-1:] == [True]


def test_a_whole_cycle_fires_before_the_agent_knows_of_it() -> None:
    """Its words have changed twice by then, and Python leaves them alone."""
    with pair(FOR_EVER_NS) as both:
        agent = both.here.agent
        assert agent is not None
        begin_cycle(both)
        before = fired(both.here)
        for said in CYCLE:
            said(both)
            both.here.reader.until_read()
        assert fired(both.here) == before
        words = {c.pid: c.page.word for c in agent.clients.by_number.values()}
        assert words == {both.holder.pid: 2 << 1, both.guest.pid: 2 << 1 | 1}
        agent.runtime.settle()
        assert fired(both.here) - before == 4
        assert words == {c.pid: c.page.word for c in agent.clients.by_number.values()}
        assert [view.state for view in agent.arbiter.tenants()] == ["idle", "holding"]
        assert both.notes(both.holder)[-2:] == [(Type.GRANT, 2), (Type.REVOKE, 2)]
        assert both.notes(both.guest) == [(Type.GRANT, 1), (Type.REVOKE, 1), (Type.GRANT, 2)]


@pytest.mark.parametrize("until", range(1, 5))
def test_a_process_that_ends_within_a_cycle_was_heard_first(until: int) -> None:
    """Whoever looks at a process that is gone takes in before what was carried out."""
    with pair(FOR_EVER_NS) as both:
        agent = both.here.agent
        assert agent is not None
        begin_cycle(both)
        before = fired(both.here)
        for said in CYCLE[:until]:
            said(both)
            both.here.reader.until_read()
        client = next(c for c in agent.clients.by_number.values() if c.pid == both.guest.pid)
        agent.clients.leave(client, "it ended")
        assert fired(both.here) - before == until
        both.here.until_rest(0.01)
        if until in (1, 2, 3):
            assert both.notes(both.holder)[-1] in ((Type.GRANT, 2), (Type.REVOKE, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("hold_ns", [0, FOR_EVER_NS])
def test_any_message_within_a_cycle_that_the_agent_does_not_know_of(
    name: str, hold_ns: int
) -> None:
    for at in range(len(CYCLE) + 1):
        with pair(hold_ns) as both:
            begin_cycle(both)
            for number, said in enumerate((*CYCLE[:at], MESSAGES[name], *CYCLE[at:])):
                if not (both.holder.is_cut or both.guest.is_cut):
                    said(both)
                    both.here.reader.until_read()
                if number == at and hold_ns == 0:
                    both.here.settle()
            both.here.until_rest(0.2)
            both.check()
