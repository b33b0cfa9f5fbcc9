"""What a process says falsely costs no process of another user anything."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from moiety.arbiter.settings import Settings
from moiety.devices.interface import Usage
from moiety.wire.layout import Type
from moiety.wire.messages import AmountMessage
from tests.support.liar import Liar
from tests.support.virtual_agent import CAPACITY, World
from tests.support.virtual_process import VirtualProcess

ABSURD = 1 << 50


@pytest.fixture
def here() -> Iterator[World]:
    """One GPU, with an agent."""
    settings = Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)
    with World(Random(1), settings) as made:
        made.start_agent()
        yield made


def begin(here: World) -> VirtualProcess:
    """An honest program with a context, and half of the GPU."""
    honest = here.begin()
    honest.attach(0, 1, CAPACITY)
    here.settle()
    honest.allocate(0, [CAPACITY // 2])
    honest.touch()
    here.until_rest(0.2)
    return honest


# The size of a context


def test_a_context_of_an_absurd_size_costs_others_nothing(here: World) -> None:
    liar = Liar(here)
    liar.attach()
    liar.say(AmountMessage(Type.CONTEXT, 0, 0, ABSURD))
    here.until_rest(0.6)
    assert here.agent is not None
    (gpu,) = here.agent.arbiter.gpus()
    assert gpu.residue_bytes == 1, "as was expected of it"
    honest = begin(here)
    assert honest.contexts == {0: 1}
    assert honest.resident_bytes(0) == CAPACITY // 2
    liar.end()
    assert begin(here).contexts == {0: 1}


def test_unreported_memory_makes_no_other_users_context_larger(here: World) -> None:
    liar = Liar(here)
    liar.attach()
    truth = here.devices.usage
    grabbed = CAPACITY // 2

    def usage(index: int) -> Usage:
        found = truth(index)
        return Usage(found.used_bytes + grabbed, None, found.processes | {liar.pid: grabbed})

    here.devices.usage = usage  # type: ignore[method-assign]
    liar.say(AmountMessage(Type.CONTEXT, 0, 0, 0))
    here.until_rest(0.6)
    assert here.agent is not None
    gpu = here.agent.gpus[0]
    (view,) = here.agent.arbiter.gpus()
    assert view.residue_bytes == grabbed, "it is not movable, and is the liar's"
    assert gpu.expected_residue_bytes(1000) == 1
    assert gpu.expected_residue_bytes(2000) == grabbed
    liar.end()
    here.devices.usage = truth  # type: ignore[method-assign]
    assert gpu.expected_residue_bytes(2000) == 1, "forgotten with its process"
