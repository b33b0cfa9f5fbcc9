"""What is counted on each GPU, once and while workloads move."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control.card_loads import CardLoads, used_by
from moiety.arbiter.admission.guarantees import Promised
from moiety.model.share import Share


class Machine:
    """GPUs, clients and workloads, as far as they are counted."""

    def __init__(self, gpus: int) -> None:
        self.gpus: Any = {
            at: SimpleNamespace(device=SimpleNamespace(uuid=f"GPU-{at}")) for at in range(gpus)
        }
        self.clients: Any = {}
        self.workloads: list[Any] = []

    def add(self, share: Share, *cards: str, uses: tuple[int, ...] = (), **more: Any) -> Any:
        number = len(self.workloads)
        if uses:
            self.clients[number] = SimpleNamespace(gpus=set(uses), unspoken=set())
        known = {"is_alive": True, "stays": False, "began_s": 0.0, "owner": "user 7"} | more
        found = SimpleNamespace(
            record=SimpleNamespace(share=share, promised=share),
            cards=cards,
            clients={number},
            **known,
        )
        self.workloads.append(found)
        return found

    def loads(self, **more: float) -> CardLoads:
        return CardLoads(self.workloads, self.clients, self.gpus, **more)


def test_what_comes_is_what_no_process_of_it_uses_yet() -> None:
    machine = Machine(3)
    both = machine.add(Share(gpu=0.5, memory_bytes=3), "GPU-0", "GPU-1", uses=(0,))
    machine.add(Share(), uses=(0,))
    machine.add(Share(gpu=0.9), "GPU-2", is_alive=False)
    loads = machine.loads()
    first, second, third = loads.of.values()
    assert (first.guaranteed_gpu, first.without_guarantee, first.promised) == (0.5, 1, Promised())
    assert (second.promised, list(second.coming.values())) == (Promised({"user 7": 0.5}, 3), [both])
    assert not third.on, "it has ended"


def test_on_the_only_gpu_is_every_workload() -> None:
    machine = Machine(1)
    machine.add(Share(gpu=0.2), is_alive=False, stays=True)
    assert machine.loads().of[0].promised == Promised({"user 7": 0.2})


def test_a_workload_without_cards_may_come_to_any_of_several() -> None:
    machine = Machine(2)
    machine.add(Share(gpu=0.2))
    assert not any(load.on for load in machine.loads().of.values())


def test_counting_out_undoes_counting_in() -> None:
    machine = Machine(2)
    machine.add(Share(gpu=0.3), "GPU-0", began_s=5.0)
    workload = machine.add(Share(gpu=0.1, memory_bytes=7), "GPU-0", "GPU-1", began_s=9.0)
    loads = machine.loads(new_since_s=6.0)
    assert [load.new for load in loads.of.values()] == [1, 1]
    loads.remove(workload)
    assert loads.of[0].promised.gpu == pytest.approx(0.3)
    assert (loads.of[0].new, loads.of[0].coming_bytes, len(loads.of[0].on)) == (0, 0, 1)
    assert not loads.of[1].on
    loads.add(workload)
    assert loads.of == machine.loads(new_since_s=6.0).of


def test_a_process_that_is_about_to_come_uses_its_gpu() -> None:
    client: Any = SimpleNamespace(gpus={1}, unspoken={2})
    workload: Any = SimpleNamespace(clients={4, 5})
    assert used_by(workload, {4: client}) == {1, 2}
