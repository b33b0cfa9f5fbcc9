"""Programs that have not looked at their GPUs move by themselves, many as cheaply as few."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import CapturingLogger

from moiety.agent.control import card_moves as module
from moiety.agent.control.card_loads import CardLoads
from moiety.agent.control.card_moves import CardMoves
from moiety.agent.control.cards import NEW_S, Cards
from moiety.agent.core.journal import Journal
from moiety.arbiter import events as ev
from moiety.devices.interface import Usage
from moiety.model.cards import CardRequest
from moiety.model.share import Share
from moiety.testing.waiting import Changes
from tests.unit.agent.test_cards import TOTAL, Machine


class Agent:
    """A machine on paper, its workloads, and what is told of them."""

    def __init__(self, *names: str) -> None:
        self.machine = Machine(*names)
        self.changes = Changes()
        self.told: list[int] = []
        self.usages: dict[int, Usage] = {}
        self.journal = Journal()
        self.on_fed: list[Any] = []
        runtime: Any = SimpleNamespace(
            now=lambda: self.machine.now_s, on_fed=self.on_fed, log=CapturingLogger()
        )
        workloads: Any = self.machine.workloads
        workloads.on_owner = []
        self.clients: Any = {}
        self.moves = CardMoves(
            runtime,
            self.machine.cards,
            workloads,
            self.clients,
            self.journal,
            self._measure,
        )
        workloads.on_owner.append(self._tell)

    async def _measure(self) -> dict[int, Usage]:
        return self.usages

    def _tell(self, uid: int) -> None:
        self.told.append(uid)
        self.changes.tell()

    def run(self, share: Share | None = None, **more: Any) -> Any:
        """A workload that begins now; its record is not on a disk."""
        self.machine.run(share, **more)
        workload = list(self.machine.workloads.by_id.values())[-1]

        def note(record: Any, _: object) -> None:
            workload.record, workload.cards = record, record.chosen

        workload.note = note
        return workload


def test_a_program_moves_to_the_gpu_that_becomes_free_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TOGETHER_S", 0.0)

    async def main() -> None:
        agent = Agent("A100", "A100")
        first, second, third = began = [agent.run() for _ in range(3)]
        assert [w.record.chosen for w in began] == [["GPU-0"], ["GPU-1"], ["GPU-0"]]
        second.is_alive = False
        agent.moves.changed()
        await agent.changes.until(lambda: agent.told)
        assert (first.record.chosen, third.record.chosen) == (["GPU-1"], ["GPU-0"])
        (event,) = agent.journal.ring
        assert (event.reason, event.gpu, event.uid, event.pid) == ("GpuMoved", 1, 1, 1)
        assert event.message.startswith("kept for it: GPU 1 instead of GPU 0")

    asyncio.run(main())


def test_a_lost_gpu_is_left_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER_S", 0.0)

    async def main() -> None:
        agent = Agent("A100", "A100")
        workload = agent.run()
        agent.machine.gpus[0].lost = "it has fallen off the bus"
        (heard,) = agent.on_fed
        heard(ev.GpuLost(0))
        await agent.changes.until(lambda: agent.told)
        assert workload.record.chosen == ["GPU-1"]

    asyncio.run(main())


def test_what_stays_is_written_and_told_once() -> None:
    agent = Agent("A100", "A100")
    workload = agent.run()
    agent.machine.gpus[0].lost = agent.machine.gpus[1].lost = "gone"
    before = workload.record
    for _ in range(3):
        agent.moves.move()
    assert workload.record is before
    assert (agent.told, list(agent.journal.ring)) == ([], [])


def test_a_program_that_has_ended_is_moved_nowhere() -> None:
    agent = Agent("A100", "A100")
    ended, _ = agent.run(), agent.run(request=CardRequest(named=("0",)))
    ended.is_alive = False
    before = ended.record
    agent.machine.gpus[0].is_drained = True
    agent.moves.move()
    assert ended.record is before
    assert not [event for event in agent.journal.ring if event.pid == before.root_pid]


def test_a_gpu_that_programs_outside_moiety_fill_is_not_free() -> None:
    agent = Agent("A100", "A100")
    first, second, third = agent.run(), agent.run(), agent.run()
    second.is_alive = False
    agent.usages = {0: Usage(0, 0.0), 1: Usage(TOTAL, 1.0)}

    async def look() -> None:
        agent.moves.changed()
        assert agent.moves._task
        await agent.moves._task

    asyncio.run(look())
    assert first.record.chosen == third.record.chosen == ["GPU-0"]


@pytest.mark.parametrize("others", [0, 7])
def test_three_hundred_programs_that_have_not_started_cost_one_sweep(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    agent = Agent(*["A100"] * (1 + others))
    number = 300
    request = CardRequest(named=("0",))
    for _ in range(number):
        workload = agent.run(request=request)
        workload.record = msgspec.structs.replace(workload.record, request=CardRequest())
    agent.machine.now_s += NEW_S + 1
    agent.machine.gpus[0].is_drained = True
    counted = Counter[str]()

    def counting(of: type, name: str) -> None:
        original = getattr(of, name)

        def count(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(of, name, count)

    counting(CardLoads, "_count")
    counting(Cards, "choose")

    async def move() -> None:
        agent.moves.move()

    asyncio.run(move())
    assert counted["_count"] <= 5 * number, "each is counted in, and twice out and in again"
    assert counted["choose"] == (number if others else 1), "all of them ask for the same"
    on = [len(load.on) for load in agent.machine.cards.loads().of.values()]
    if others:
        assert on[0] == 0
        assert max(on) - min(on[1:]) <= 1
        assert agent.told == [1]
    else:
        assert on == [number]
        assert not agent.told


def test_a_program_whose_command_named_another_gpu_is_told() -> None:
    agent = Agent("A100", "A100")
    first, second = agent.run(), agent.run()
    sent: list[bytes] = []
    for number, workload in ((1, first), (2, second)):
        workload.record = msgspec.structs.replace(workload.record, id=str(number - 1))
        connection = SimpleNamespace(send=sent.append)
        agent.clients[number] = SimpleNamespace(
            workload=str(number - 1), talks=True, connection=connection
        )
    agent.machine.workloads.on_owner.clear()
    agent.machine.gpus[0].is_drained = True
    agent.moves.move()
    assert first.record.chosen == ["GPU-1"]
    for tenant in (3, 2, 1, 1):
        for call in agent.on_fed:
            call(ev.Attach(tenant, 0, serial=1, residue_bytes=0, limit_bytes=1))
    (line,) = sent
    assert b"it gets GPU 1 instead of GPU 0" in line
