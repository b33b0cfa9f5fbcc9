"""A new agent counts what the last one recorded, and what the driver confirms; never a word."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from moiety.agent.core.proofs import NOTHING
from moiety.arbiter import events as ev
from moiety.arbiter.settings import Settings
from moiety.wire.layout import HelloFlag
from tests.support.liar import USER as LIARS
from tests.support.liar import Liar
from tests.support.virtual_agent import CAPACITY, USER, World
from tests.support.virtual_process import VirtualProcess

LIMIT = 5


@pytest.fixture
def here() -> Iterator[World]:
    """One GPU, with an agent."""
    with World(Random(1), Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)) as made:
        made.start_agent()
        yield made


def limit(here: World) -> None:
    """Each user may have so much from now on."""
    assert here.agent is not None
    rule = (LIMIT, "the user may have")
    here.agent.runtime.feed(ev.UserLimitsSet({LIARS: rule, USER: rule}))


def begin(here: World, size: int) -> VirtualProcess:
    """An honest program with so much memory."""
    honest = here.begin()
    honest.attach(0, 1, CAPACITY)
    here.settle()
    honest.allocate(0, [size])
    honest.touch()
    here.until_rest(0.2)
    return honest


def restart(here: World) -> None:
    """The agent is killed, and another one begins."""
    here.kill_agent()
    here.start_agent()
    limit(here)


def counted(here: World) -> list[int]:
    """Bytes that count for each process."""
    assert here.agent is not None
    return [view.gpus[0].allocated_bytes for view in here.agent.arbiter.tenants() if view.gpus]


@pytest.mark.parametrize("pinned", [0, CAPACITY])
def test_a_process_that_had_nothing_claims_nothing_after_a_restart(
    here: World, pinned: int
) -> None:
    honest = begin(here, 4)
    liars = [Liar(here) for _ in range(2)]
    for liar in liars:
        liar.attach()
    restart(here)
    for liar in liars:
        liar.reconnect(HelloFlag.RESUMED | HelloFlag.HOLDING)
        liar.attach(CAPACITY, CAPACITY, pinned, serial=0)
    here.until_rest(3)
    assert all("the user may have" in liar.refusals[0] for liar in liars)
    assert sum(counted(here)) == 4
    assert honest.is_open
    for liar in liars:
        liar.reconnect(HelloFlag.RESUMED)
        liar.attach(CAPACITY, CAPACITY, pinned, serial=0)
    here.until_rest(3)
    assert sum(counted(here)) == 4, "the driver counts nothing of them either"


def test_what_was_recorded_counts_beyond_a_limit_that_became_smaller(here: World) -> None:
    honest = begin(here, LIMIT + 2)
    restart(here)
    here.until_rest(3)
    assert counted(here) == [LIMIT + 2]
    assert not honest.refusals


def test_who_grew_just_before_the_agent_ended_loses_nothing(here: World) -> None:
    honest = begin(here, LIMIT + 2)
    here.kill_agent()
    here.written[honest.number] = ({0: (2, 0)}, False)
    here.start_agent()
    limit(here)
    here.until_rest(5)
    assert counted(here) == [LIMIT + 2], "the driver confirms it"
    assert honest.is_open
    assert honest.resident_bytes(0) == LIMIT + 2


def test_a_record_of_an_older_version_names_no_bytes(here: World) -> None:
    honest = begin(here, LIMIT + 2)
    here.kill_agent()
    here.written[honest.number] = ({0: None}, False)
    here.start_agent()
    limit(here)
    here.until_rest(3)
    assert counted(here) == [LIMIT + 2]
    assert not honest.refusals


def test_a_proof_counts_for_one_report(here: World) -> None:
    begin(here, 4)
    restart(here)
    here.until_rest(0.5)
    assert here.agent is not None
    (client,) = here.agent.clients.by_number.values()
    proofs = here.agent.clients.proofs
    assert proofs.of(client, 0) == NOTHING
    assert proofs.gpus_of(client) == set()
    proofs.ask(client, 0)
    here.until_rest(1)
    assert proofs.take(client, 0) == (4, 0)
    proofs.forget(client)
    proofs.ask(client, 0)
    here.until_rest(1)
    assert proofs.beside(client, 0, (3, 2)) == (3, 2)
    assert proofs.beside(client, 0, None) == NOTHING
