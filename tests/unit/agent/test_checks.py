"""Requests to pin memory, as an agent answers, records and bounds them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from moiety.agent.shim.checks import pinned_gpu
from moiety.arbiter import events as ev
from moiety.arbiter.settings import Settings
from moiety.wire.layout import NO_GPU, Type
from moiety.wire.messages import AmountMessage, PinMessage, RefusedMessage
from tests.support.liar import Liar
from tests.support.virtual_agent import CAPACITY, World

CALL = "cuIpcGetMemHandle"


@pytest.fixture
def here() -> Iterator[World]:
    """One GPU, with an agent."""
    with World(Random(1), Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)) as made:
        made.start_agent()
        yield made


def holder(here: World, amount: int) -> Liar:
    process = Liar(here)
    process.attach()
    process.alloc(amount)
    here.until_rest(0.2)
    return process


def events(here: World, reason: str) -> list[str]:
    assert here.agent is not None
    return [event.message for event in here.agent.journal.ring if event.reason == reason]


def pinned_bytes(here: World) -> int:
    assert here.agent is not None
    return sum(on.pinned_bytes for t in here.agent.arbiter.tenants() for on in t.gpus.values())


def test_every_gpu_has_a_number_of_its_own() -> None:
    assert (pinned_gpu(3), pinned_gpu(NO_GPU)) == (3, ev.EVERY_GPU)


@pytest.mark.parametrize("gpu", [0, NO_GPU])
def test_a_pin_is_answered_and_recorded_with_its_call(here: World, gpu: int) -> None:
    process = holder(here, 4)
    process.say(PinMessage(Type.PIN_REQUEST, 70, gpu, 4 if gpu == 0 else 0, CALL))
    assert AmountMessage(Type.PIN_REPLY, 70, gpu) in process.heard(AmountMessage)
    (said,) = events(here, "Pinned")
    assert CALL in said
    assert ("4 B stay" in said) is (gpu == 0)
    assert here.agent is not None
    (client,) = here.agent.clients.by_number.values()
    assert (client.pins, client.pinned) == (({CALL: 4}, "") if gpu == 0 else ({}, CALL))
    process.say(AmountMessage(Type.UNPIN, 0, gpu, 4))
    assert (pinned_bytes(here), client.pinned) == (0, "")
    process.say(PinMessage(Type.PIN_REQUEST, 71, 0, 3, "cuMemExportToShareableHandle"))
    assert client.pins == {"cuMemExportToShareableHandle": 3}
    assert not any(t.pinned for t in here.agent.arbiter.tenants())


@pytest.mark.parametrize("gpu", [0, NO_GPU])
def test_a_pin_that_shuts_out_another_is_refused_and_recorded(here: World, gpu: int) -> None:
    holder(here, CAPACITY - 1)
    process = holder(here, 4)
    process.say(PinMessage(Type.PIN_REQUEST, 70, gpu, 4, CALL))
    assert [each.serial for each in process.heard(RefusedMessage)] == [70]
    (said,) = events(here, "Refused")
    assert f"{CALL} would keep 4 B on GPU 0 for good" in said
    assert pinned_bytes(here) == 0


@pytest.mark.parametrize(
    "lie",
    [
        PinMessage(Type.PIN_REQUEST, 70, 31, 4, CALL),
        AmountMessage(Type.UNPIN, 0, 31, 4),
        AmountMessage(Type.PIN_REPLY, 0, 0, 4),
    ],
)
def test_a_pin_that_makes_no_sense_ends_the_conversation(
    here: World, lie: PinMessage | AmountMessage
) -> None:
    process = holder(here, 4)
    process.say(lie)
    assert events(here, "BadMessage")


def test_absurd_pins_count_up_to_what_is_allocated(here: World) -> None:
    process = holder(here, 4)
    process.say(PinMessage(Type.PIN_REQUEST, 70, 0, 1 << 60, CALL))
    assert pinned_bytes(here) == 4
    process.say(AmountMessage(Type.UNPIN, 0, 0, 1 << 60))
    assert pinned_bytes(here) == 0
