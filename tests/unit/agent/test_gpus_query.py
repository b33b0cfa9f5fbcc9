"""A program that is about to read its GPUs asks which ones are its own."""

from __future__ import annotations

import socket
from random import Random

import pytest

from moiety.agent.shim.session import Session, gpus_message
from moiety.agent.system.processes import Peer
from moiety.arbiter.settings import Settings
from moiety.devices.interface import uuid_bytes
from moiety.model.share import NOTHING_ASKED
from moiety.wire.codec import decode
from moiety.wire.layout import GPUS_MAX
from moiety.wire.messages import GpusMessage, GpusQueryMessage
from tests.support.virtual_agent import World

ONE = "GPU-00000000-0000-0000-0000-000000000001"
PART = "MIG-00000000-0000-0000-0000-000000000002"


@pytest.mark.parametrize("cards", [(), (ONE,), (ONE, PART)])
def test_it_is_told_the_gpus_of_its_workload_without_joining(cards: tuple[str, ...]) -> None:
    with World(Random(1), Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)) as here:
        agent = here.start_agent()
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer, looks = Peer(here.begin_liar(), 1000, 1000), []

        def settle() -> tuple[str, ...]:
            looks.append("settled")
            return cards

        Session(agent.sessions, theirs, peer=peer, workload="w", share=NOTHING_ASKED, cards=settle)
        assert not looks, "to connect is not to look"
        ours.send(GpusQueryMessage(serial=7).encode())
        here.until_rest(1)
        with ours:
            answer = decode(ours.recv(4096))
            assert ours.recv(4096) == b"", "the agent hangs up"
        assert isinstance(answer, GpusMessage)
        assert (answer.serial, answer.count) == (7, len(cards))
        assert answer.uuids.startswith(b"".join(map(uuid_bytes, cards)))
        assert not agent.clients.by_number
        assert looks == ["settled"]


def test_an_instance_of_a_divided_gpu_is_marked() -> None:
    assert gpus_message(0, (ONE, PART)).mig == 0b10


def test_more_than_a_message_holds_are_cut() -> None:
    assert gpus_message(0, (ONE,) * (GPUS_MAX + 1)).count == GPUS_MAX
