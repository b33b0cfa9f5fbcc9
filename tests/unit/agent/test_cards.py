"""The choice of cards for a new workload, on a machine with eight of them."""

from __future__ import annotations

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from moiety.agent.control import cards as module
from moiety.agent.control import protocol
from moiety.agent.control.cards import NEW_S, Cards
from moiety.agent.control.records import Record
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.devices.budget import GpuBudget
from moiety.devices.interface import Device, Usage
from moiety.model.cards import CardRequest
from moiety.model.errors import BadArgument, LimitAboveCapacity, NotAllowed, ShareTaken
from moiety.model.share import Mode, Share

GIB = 1 << 30
TOTAL = 80 * GIB
ANY = CardRequest()


class Machine:
    """Cards on paper, a real arbiter, and workloads that are only records."""

    def __init__(self, *names: str) -> None:
        names = names or ("A100",) * 8
        self.now_s = 0.0
        self.clients: Any = {}
        self.gpus: Any = {
            at: SimpleNamespace(
                device=Device(at, f"GPU-{at}", name, TOTAL),
                budget=GpuBudget(TOTAL, 0, 0, TOTAL, 0),
                lost="",
                is_drained=False,
            )
            for at, name in enumerate(names)
        }
        specs = [GpuSpec(at, TOTAL, TOTAL) for at in self.gpus]
        self.arbiter = Arbiter(specs, Settings(arena_bytes=0))
        runtime: Any = SimpleNamespace(now=lambda: self.now_s)
        self.workloads = SimpleNamespace(by_id={})
        known: Any = self.workloads.by_id
        self.cards = Cards(runtime, self.gpus, self.clients, self.arbiter, known)

    def run(
        self, share: Share | None = None, request: CardRequest = ANY, **measured: float
    ) -> list[int]:
        """A workload that begins now, on the cards that are chosen for it."""
        usages = {int(at[1:]): Usage(0, part) for at, part in measured.items()}
        found = self.cards.choose(request, share or Share(), usages)
        share = self.cards.share_on(found, request, share or Share())
        uuids = [self.gpus[at].device.uuid for at in found]
        record = Record("w", 1, 1, 1, "p", [], "/", share, chosen=uuids, request=request)
        self.workloads.by_id[str(len(self.workloads.by_id))] = SimpleNamespace(
            owner="",
            record=record,
            cards=uuids,
            clients=set(),
            is_alive=True,
            stays=False,
            began_s=self.now_s,
        )
        return found


def test_programs_that_start_together_get_a_card_each() -> None:
    machine = Machine()
    assert sorted(machine.run()[0] for _ in range(8)) == list(range(8))
    assert sorted(machine.run()[0] for _ in range(8)) == list(range(8))


def test_guarantees_of_programs_that_have_not_come_yet_count() -> None:
    machine = Machine()
    found = [machine.run(Share(gpu=0.6))[0] for _ in range(8)]
    assert sorted(found) == list(range(8))
    with pytest.raises(ShareTaken, match="no GPU can keep that") as refused:
        machine.run(Share(gpu=0.6))
    assert "--gpu 0.4 fits on GPU 0, which has 40 % left" in refused.value.hint
    machine.run(Share(gpu=0.4))


def test_memory_that_was_promised_counts() -> None:
    machine = Machine("A100", "A100")
    assert machine.run(Share(memory_bytes=60 * GIB)) == [0]
    assert machine.run(Share(memory_bytes=60 * GIB)) == [1]
    with pytest.raises(ShareTaken) as refused:
        machine.run(Share(memory_bytes=30 * GIB))
    assert "--memory 20480MiB fits on GPU" in refused.value.hint


def test_the_card_that_was_measured_to_be_least_busy_is_taken() -> None:
    machine = Machine("A100", "A100", "A100")
    assert machine.run(g0=0.9, g1=0.2, g2=0.5) == [1]
    assert machine.run(g0=0.9, g1=0.2, g2=0.5) == [2]  # the first one has only just begun


def test_cards_that_mig_divides_are_chosen_only_by_name() -> None:
    machine = Machine("A100", "A100", "A100")
    for at in (1, 2):
        gpu = machine.gpus[at]
        gpu.device = dataclasses.replace(gpu.device, mig=True)
    assert [machine.run()[0] for _ in range(3)] == [0, 0, 0]
    assert machine.run(request=CardRequest(0, ("2",))) == [2]
    with pytest.raises(BadArgument, match="2 GPUs are asked for, and 1 of the kind"):
        machine.run(request=CardRequest(2))
    machine.gpus.pop(0)
    assert machine.run() == [1], "there are no others"


def test_a_program_that_did_nothing_for_long_is_no_load() -> None:
    machine = Machine("A100", "A100")
    assert machine.run() == [0]
    machine.now_s = NEW_S + 1
    assert machine.run(g0=0.0, g1=0.8) == [0]


def test_a_card_without_time_or_memory_left_is_the_last_choice() -> None:
    machine = Machine("A100", "A100")
    assert machine.run(request=CardRequest(exclusive=True)) == [0]
    machine.now_s = NEW_S + 1
    assert machine.run(g0=0.0, g1=1.0) == [1]
    assert machine.run(g0=0.0, g1=1.0) == [1]


def test_exclusive_takes_a_free_card_and_all_of_it() -> None:
    machine = Machine("A100", "A100")
    assert machine.run() == [0]
    machine.now_s = NEW_S + 1
    assert machine.run(request=CardRequest(exclusive=True), g0=0.0, g1=0.5) == [1]
    kept = machine.workloads.by_id["1"].record.share
    assert (kept.gpu, kept.memory_bytes) == (1.0, TOTAL)
    with pytest.raises(ShareTaken):
        machine.run(Share(gpu=0.1), CardRequest(named=("1",)))


def test_several_cards_are_kept_for_one_workload() -> None:
    machine = Machine()
    assert machine.run(Share(gpu=0.6), CardRequest(3)) == [0, 1, 2]
    assert machine.run(Share(gpu=0.6), CardRequest(5)) == [3, 4, 5, 6, 7]
    with pytest.raises(BadArgument, match="8 of the kind"):
        machine.run(request=CardRequest(9))
    with pytest.raises(ShareTaken, match="and 2 must"):
        machine.run(Share(gpu=0.6), CardRequest(2))


def test_who_names_cards_gets_them_all_unless_a_number_is_said() -> None:
    machine = Machine()
    assert machine.run(request=CardRequest(named=("5", "2"))) == [2, 5]
    assert machine.run(request=CardRequest(1, named=("2", "3"))) == [3]


def test_a_model_is_a_part_of_the_name() -> None:
    machine = Machine("NVIDIA A100", "Tesla T4")
    assert machine.run(request=CardRequest(model="t4")) == [1]
    with pytest.raises(BadArgument, match="no GPU here is a H100"):
        machine.run(request=CardRequest(model="H100"))


def test_a_card_that_is_too_small_is_no_choice() -> None:
    machine = Machine("A100", "T4")
    machine.gpus[1].budget = GpuBudget(16 * GIB, 0, 0, 16 * GIB, 0)
    machine.run()
    assert machine.run(Share(memory_limit_bytes=40 * GIB)) == [0]
    with pytest.raises(LimitAboveCapacity):
        machine.run(Share(memory_limit_bytes=100 * GIB))


def test_a_limit_that_too_few_cards_have_is_refused_in_words() -> None:
    machine = Machine("A100", "T4")
    machine.gpus[1].budget = GpuBudget(16 * GIB, 0, 0, 16 * GIB, 0)
    with pytest.raises(LimitAboveCapacity, match="16 GiB"):
        machine.run(Share(memory_limit_bytes=40 * GIB), CardRequest(2))


def test_nothing_runs_on_a_card_that_is_lost() -> None:
    machine = Machine("A100", "A100")
    machine.gpus[0].lost = "it has fallen off the bus"
    assert [machine.run() for _ in range(3)] == [[1]] * 3


def test_nvml_that_does_not_answer_delays_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEASURE_S", 0.001)

    async def never() -> dict[int, Usage]:
        await asyncio.Event().wait()
        return {}

    assert asyncio.run(Machine().cards.measured(never)) == {}


def test_a_user_gets_no_card_but_its_own() -> None:
    machine = Machine()
    share = Share()
    assert machine.cards.choose(ANY, share, {}, only=[5, 6]) == [5]
    assert machine.cards.choose(CardRequest(2), share, {}, only=[5, 6]) == [5, 6]
    for request in (CardRequest(3), CardRequest(named=("0",))):
        with pytest.raises(BadArgument, match="are here for you"):
            machine.cards.choose(request, share, {}, only=[5, 6])


def test_a_share_for_containers_is_of_none_but_its_users_cards() -> None:
    cards = Machine().cards
    asked = protocol.CreateContainer("half")
    assert cards.within(asked, None) is asked
    assert cards.within(asked, [5, 6]).gpus == ["GPU-5", "GPU-6"]
    mine = protocol.CreateContainer("half", gpus=["GPU-5"])
    assert cards.within(mine, [5, 6]).gpus == ["GPU-5"]
    for only in ([6], [99]):
        with pytest.raises(NotAllowed, match="may have no GPUs but"):
            cards.within(mine, only)


def test_sixteen_unequal_programs_of_four_users_find_their_cards() -> None:
    machine = Machine()
    wanted = [0.5, 0.3, None, 0.4] * 4
    found = [machine.run(Share(gpu=part))[0] for part in wanted]
    for card in range(8):
        parts = [part for part, on in zip(wanted, found, strict=True) if on == card]
        assert len(parts) == 2
        assert sum(part or 0 for part in parts) <= 1


def again(machine: Machine, number: int) -> list[str]:
    """The cards of a workload when it looks at them."""
    found: list[str] = machine.cards.choose_again(machine.workloads.by_id[str(number)]).chosen
    return found


def test_a_program_that_has_not_looked_moves_to_a_card_that_became_free() -> None:
    machine = Machine("A100", "A100")
    assert [machine.run(), machine.run(), machine.run()] == [[0], [1], [0]]
    assert again(machine, 2) == ["GPU-0"], "no card is free"
    machine.workloads.by_id["1"].is_alive = False
    assert again(machine, 2) == ["GPU-1"]
    assert again(machine, 0) == ["GPU-1"], "whichever looks first"
    machine.clients[5] = SimpleNamespace(gpus={0}, unspoken=set())
    machine.workloads.by_id["2"].clients.add(5)
    assert again(machine, 2) == ["GPU-0"], "it has a context there"


def test_a_program_that_is_alone_on_its_card_stays() -> None:
    machine = Machine()
    assert machine.run() == [0]
    assert again(machine, 0) == ["GPU-0"]


def test_a_free_card_that_others_use_outside_is_no_better() -> None:
    machine = Machine("A100", "A100")
    machine.run(), machine.run(), machine.run()
    machine.workloads.by_id["1"].is_alive = False
    outside = {0: Usage(0, 0.0), 1: Usage(TOTAL, 0.0)}

    async def ask() -> dict[int, Usage]:
        return outside

    asyncio.run(machine.cards.measured(ask))
    assert again(machine, 2) == ["GPU-0"], "the free one has no memory left"
    machine.now_s += NEW_S + 1
    assert again(machine, 2) == ["GPU-1"], "that was measured long ago"


def test_a_program_that_has_not_looked_leaves_a_drained_card() -> None:
    machine = Machine("A100", "A100", "T4")
    machine.run(), machine.run(request=CardRequest(model="A100"))
    machine.gpus[1].is_drained = True
    assert again(machine, 1) == ["GPU-0"], "within what was asked for"
    machine.gpus[0].is_drained = True
    assert again(machine, 1) == ["GPU-1"], "no other would do"


def test_a_program_moves_among_the_cards_of_its_user_only() -> None:
    machine = Machine("A100", "A100", "A100")
    machine.run(), machine.run(), machine.run(request=CardRequest(named=("0",)))
    machine.workloads.by_id["2"].is_alive = False
    workload = machine.workloads.by_id["0"]
    workload.record = msgspec.structs.replace(workload.record, gpus=["GPU-0", "GPU-1"])
    machine.gpus[0].is_drained = True
    assert again(machine, 0) == ["GPU-1"], "GPU 2 is free, and not its user's"


def test_an_exclusive_share_is_of_the_card_to_which_it_moves() -> None:
    machine = Machine("A100", "T4")
    machine.gpus[1].budget = GpuBudget(16 * GIB, 0, 0, 16 * GIB, 0)
    machine.run(request=CardRequest(exclusive=True))
    (workload,) = machine.workloads.by_id.values()
    machine.gpus[0].is_drained = True
    moved = machine.cards.choose_again(workload)
    assert (moved.chosen, moved.share.memory_bytes) == (["GPU-1"], 16 * GIB)


def linked(machine: Machine, *pairs: tuple[int, int]) -> None:
    """Connect these pairs of cards by NVLink."""
    for at, gpu in machine.gpus.items():
        peers = [{*pair} - {at} for pair in pairs if at in pair]
        links = tuple((peer, 4) for (peer,) in peers)
        gpu.device = dataclasses.replace(gpu.device, links=links)


def test_several_cards_are_nvlink_neighbours() -> None:
    machine = Machine(*["A100"] * 6)
    linked(machine, (0, 4), (1, 3), (2, 5))
    assert [machine.run(request=CardRequest(2)) for _ in range(3)] == [[0, 4], [1, 3], [2, 5]]
    assert machine.run(request=CardRequest(2, named=("0", "1", "3"))) == [1, 3]
    assert machine.run(request=CardRequest(1)) != [1]


def test_free_cards_go_before_linked_ones_that_others_use() -> None:
    machine = Machine(*["A100"] * 4)
    linked(machine, (0, 1), (2, 3))
    machine.run(request=CardRequest(named=("0",)))
    machine.run(request=CardRequest(named=("2",)))
    assert machine.run(request=CardRequest(2)) == [1, 3]
    machine.now_s += NEW_S + 1
    assert machine.run(request=CardRequest(2), g0=0.3, g1=0.1, g2=0.1, g3=0.2) == [2, 3]


def test_in_managed_mode_any_card_will_do_for_a_limit_beyond_it() -> None:
    machine = Machine("A100", "T4")
    machine.gpus[1].budget = GpuBudget(16 * GIB, 0, 0, 16 * GIB, 0)
    machine.run()
    assert machine.run(Share(memory_limit_bytes=100 * GIB, mode=Mode.MANAGED)) == [1]
    assert machine.run(Share(memory_limit_part=0.5)) in ([0], [1])
