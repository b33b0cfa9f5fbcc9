"""A process that does not answer whether it can give back host memory, and what is done then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from moiety.arbiter.settings import OverduePolicy, Settings
from moiety.wire.layout import Type
from moiety.wire.messages import LeaseNoteMessage
from tests.support.liar import Liar
from tests.support.virtual_agent import World


@pytest.fixture
def here() -> Iterator[World]:
    """One GPU, with an agent."""
    with World(Random(1), Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)) as made:
        made.start_agent()
        yield made


def about(here: World, reason: str) -> list[str]:
    """What the events with this reason say."""
    assert here.agent is not None
    return [event.message for event in here.agent.journal.ring if event.reason == reason]


@pytest.mark.parametrize("policy", OverduePolicy)
def test_who_keeps_host_memory_without_an_answer_is_named_and_by_policy_ended(
    here: World, policy: OverduePolicy
) -> None:
    liar = Liar(here)
    liar.attach()
    assert here.agent is not None
    here.agent.settings.change(replace(here.settings, overdue=policy))
    (client,) = here.agent.clients.by_number.values()
    here.kernel.stopped.add(liar.pid)
    here.agent.executor.keeps_segments(client)
    assert about(here, "Overdue") == [], "a stopped process cannot answer"
    here.kernel.stopped.clear()
    here.agent.executor.keeps_segments(client)
    assert about(here, "Overdue") == [
        "did not answer within 1 s whether it can give back host memory"
    ]
    assert here.kernel.killed == [liar.pid] * (policy is OverduePolicy.KILL)
    assert len(about(here, "Killed")) == (policy is OverduePolicy.KILL)
    here.kernel.killed.clear()


def test_who_carries_out_an_order_answers_about_host_memory_after_that(here: World) -> None:
    liar = Liar(here)
    liar.attach()
    liar.alloc(8)
    liar.say(LeaseNoteMessage(type=Type.LEASE_REQUEST))
    other = Liar(here)
    other.attach()
    other.alloc(8)
    here.until_rest(0.5)
    assert here.agent is not None
    client = next(iter(here.agent.clients.by_number.values()))
    assert here.agent.arbiter.has_order(client.number)
    here.agent.executor.keeps_segments(client)
    assert about(here, "Overdue") == []
