"""What the arbiter is told to keep for workloads that use no GPU yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from moiety.agent.control.card_loads import CardLoads
from moiety.agent.control.promises import Promises
from moiety.arbiter import events as ev
from moiety.model.share import Share

GIB = 1 << 30


class Agent:
    """GPUs, workloads and clients, as far as promises need them."""

    def __init__(self, gpus: int = 1) -> None:
        self.events: list[ev.Event] = []
        self.clients: Any = {}
        self.gpus: Any = {
            gpu: SimpleNamespace(
                device=SimpleNamespace(uuid=f"GPU-{gpu}"),
                expected_residue_bytes=lambda uid: uid,
                budget=SimpleNamespace(total_bytes=400),
            )
            for gpu in range(gpus)
        }
        runtime: Any = SimpleNamespace(feed=self.events.append)
        workloads: Any = SimpleNamespace(by_id={}, on_owner=[])
        self.workloads = workloads
        Promises(runtime, self.clients, self.gpus, workloads)

    def add(self, name: str, share: Share, *gpus: str, uid: int = 100) -> Any:
        """A workload without processes, bound to these GPUs or to none."""
        record = SimpleNamespace(share=share, promised=share, gpus=gpus, uid=uid)
        found = SimpleNamespace(
            record=record,
            cards=gpus,
            clients=set(),
            is_alive=True,
            stays=False,
            began_s=0.0,
            owner=str(uid),
        )
        self.workloads.by_id[name] = found
        self.changed()
        return found

    def join(self, workload: Any, number: int, *gpus: int) -> None:
        """A process of a workload, which uses these GPUs."""
        self.clients[number] = SimpleNamespace(gpus=set(gpus), unspoken=set())
        workload.clients.add(number)
        self.changed()

    def changed(self) -> None:
        """Tell the listeners."""
        for call in self.workloads.on_owner:
            call(100)


def test_memory_and_a_context_are_kept_until_a_process_uses_the_gpu() -> None:
    agent = Agent()
    first = agent.add("a", Share(memory_bytes=2 * GIB))
    agent.add("b", Share(memory_bytes=GIB), uid=7)
    agent.join(first, 1)
    assert agent.events == [ev.PromiseSet(0, 2 * GIB, 100), ev.PromiseSet(0, 3 * GIB, 107)]
    agent.join(first, 2, 0)
    assert agent.events[2:] == [ev.PromiseSet(0, GIB, 7)]
    del agent.workloads.by_id["b"]
    agent.changed()
    agent.changed()
    assert agent.events[3:] == [ev.PromiseSet(0, 0, 0)]


def test_nothing_is_kept_for_a_program_that_has_ended() -> None:
    agent = Agent()
    program = agent.add("a", Share(memory_bytes=GIB))
    share = agent.add("b", Share(memory_bytes=GIB))
    program.is_alive = share.is_alive = False
    share.stays = True  # containers may come
    agent.changed()
    assert agent.events[-1] == ev.PromiseSet(0, GIB, 100)


def test_contexts_of_many_take_half_of_a_gpu_at_most() -> None:
    agent = Agent()
    for number in range(5):
        agent.add(str(number), Share(memory_bytes=1))
    assert agent.events[-1] == ev.PromiseSet(0, 5, 200)


def test_nothing_is_kept_for_a_share_without_memory() -> None:
    agent = Agent()
    agent.add("a", Share(gpu=0.5))
    assert agent.events == []


def kept_for(agent: Agent, gpu: int, workloads: list[Any]) -> list[Any]:
    return list(CardLoads(workloads, agent.clients, agent.gpus).of[gpu].coming.values())


def test_of_several_gpus_the_ones_that_it_is_bound_to_count() -> None:
    agent = Agent(2)
    bound = agent.add("a", Share(memory_bytes=GIB), "GPU-1")
    free = agent.add("b", Share(memory_bytes=GIB))
    assert agent.events == [ev.PromiseSet(1, GIB, 100)]
    assert kept_for(agent, 0, [bound, free]) == []
    assert kept_for(agent, 1, [bound, free]) == [bound]


def test_of_the_cards_of_a_workload_those_that_it_does_not_use_yet_are_kept() -> None:
    agent = Agent(2)
    both = agent.add("a", Share(gpu=0.5), "GPU-0", "GPU-1")
    agent.join(both, 1, 0)
    assert kept_for(agent, 0, [both]) == []
    assert kept_for(agent, 1, [both]) == [both]
