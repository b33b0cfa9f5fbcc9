"""A process without a connection keeps what only its end, or its own word, gives back."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from moiety.arbiter.settings import Settings
from tests.support.liar import Liar
from tests.support.virtual_agent import World

MEMFD = "lent"


@pytest.fixture
def here() -> Iterator[World]:
    """One GPU, with an agent that has lent host memory to every process."""
    with World(Random(1), Settings(1000, revoke_deadline_s=1.0)) as made:
        made.start_agent().clients.host_memory_of = lambda _: MEMFD
        yield made


def tenants(here: World) -> int:
    assert here.agent is not None
    return len(here.agent.clients.by_number)


def cut(here: World) -> Liar:
    """A process with a context whose connection breaks, and who does not come back."""
    process = Liar(here)
    process.attach()
    process.sock.close()
    here.liars.pop(process.pid)
    return process


def test_a_process_that_has_host_memory_mapped_is_not_gone(here: World) -> None:
    process = cut(here)
    here.kernel.mapped.add((process.pid, MEMFD))
    here.until_rest(20)
    assert tenants(here) == 1, "its evicted data may be there"
    here.kernel.mapped.clear()
    here.until_rest(5)
    assert tenants(here) == 0, "it called exec, say"
    here.kernel.end(process.pid)


def test_a_process_with_nothing_is_gone_after_a_while(here: World) -> None:
    process = cut(here)
    here.until_rest(5)
    assert tenants(here) == 0
    here.kernel.end(process.pid)


def test_the_segments_of_a_process_are_those_of_its_next_connection(here: World) -> None:
    assert here.agent is not None
    told: list[tuple[int, int]] = []
    here.agent.clients.on_resumed.append(lambda before, now: told.append((before.number, now.pid)))
    process = Liar(here)
    process.attach()
    process.reconnect(flags=0)
    assert told == [], "it says that it is new, and so has none"
    process.reconnect(flags=1)
    assert told == [(2, process.pid)]
