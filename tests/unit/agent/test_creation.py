"""The workload of a `moiety run`: its share, and its GPUs."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.card_queue import CardQueue
from moiety.agent.control.creation import Creation
from moiety.agent.control.shares import Shares
from moiety.agent.core.journal import Journal
from moiety.agent.core.rate_limits import RateLimits
from moiety.agent.system.processes import Peer
from moiety.devices.interface import Device, Usage
from moiety.model.cards import CardRequest
from moiety.model.errors import ShareTaken
from moiety.model.share import Share
from tests.unit.agent.test_cards import TOTAL, Machine

PEER = Peer(1, 1, 1)


class Agent:
    """An agent with GPUs on paper, whose workloads are only records."""

    def __init__(self, *names: str) -> None:
        self.machine = machine = Machine(*names)
        for at, gpu in machine.gpus.items():
            gpu.device = Device(at, f"GPU-{at:08x}-0000-4000-8000-000000000000", "A100", TOTAL)
        log: Any = SimpleNamespace(info=lambda *_, **__: None)
        runtime: Any = SimpleNamespace(now=lambda: machine.now_s, log=log)
        self._numbers = itertools.count()
        known: Any = machine.workloads
        self.workloads: Any = known
        self.workloads.create = self._create
        self.shares = Shares(
            runtime, machine.clients, machine.gpus, machine.arbiter, Journal(), known, machine.cards
        )
        self.limits = RateLimits()
        self.queue = CardQueue(runtime, machine.cards, self._measure, self.limits)
        machine.cards.kept = self.queue.refuse
        self.creation = Creation(
            runtime, known, self.shares, machine.cards, self._measure, queue=self.queue
        )

    async def _measure(self) -> dict[int, Usage]:
        return {}

    def _create(
        self, peer: Peer, *, share: Share, cards: Any, only: Any, program: str, **_: Any
    ) -> Any:
        number = next(self._numbers)
        self.machine.now_s += 1
        found = SimpleNamespace(
            record=SimpleNamespace(
                id=str(number),
                share=share,
                promised=share,
                program=program,
                chosen=list(cards),
                gpus=list(only),
            ),
            cards=list(cards or only),
            clients=set(),
            is_alive=True,
            stays=False,
            began_s=self.machine.now_s,
            promised_s=self.machine.now_s,
            owner="",
            socket="",
        )
        self.workloads.by_id[str(number)] = found
        self.machine.now_s += 1
        return found

    def run(self, share: Share, request: CardRequest | None) -> protocol.Created:
        """What `moiety run` with this share gets."""
        asked = protocol.CreateWorkload("a.out", [], "/", share, cards=request)
        return asyncio.run(self.creation.create(asked, PEER))


@pytest.mark.parametrize("names", [("A100",), ("A100", "A100")])
def test_the_agent_works_out_the_share_of_whole_gpus(names: tuple[str, ...]) -> None:
    agent = Agent(*names)
    found = agent.run(Share(), CardRequest(exclusive=True))
    share = agent.workloads.by_id[found.id].record.share
    assert (share.gpu, share.gpu_limit, share.memory_bytes) == (1.0, 1.0, TOTAL)
    with pytest.raises(ShareTaken):
        agent.run(Share(gpu=0.1), CardRequest(named=("0",)))


def test_a_program_without_gpus_keeps_none() -> None:
    agent = Agent("A100", "A100")
    assert agent.run(Share(), None).cards == []
    assert agent.workloads.by_id["0"].cards == []
