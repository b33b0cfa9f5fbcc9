"""What one user can bring about as often as it likes is few events and few lines of the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from moiety.agent.control import protocol
from moiety.agent.control.shares import Shares
from moiety.agent.core.executor import Executor
from moiety.agent.core.journal import Journal
from moiety.arbiter import instructions as do
from moiety.model.share import Share

TIMES = 500


class Agent:
    """The part of an agent that such things pass through."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.lines: list[str] = []
        self.journal = Journal(wall_s=lambda: self.now_s)
        write = lambda what, **_: self.lines.append(what)  # noqa: E731
        log = SimpleNamespace(info=write, warning=write)
        self.arbiter = None
        self.runtime = SimpleNamespace(log=log)
        connection = SimpleNamespace(send=lambda *_: None)
        self.clients: dict[int, Any] = {
            7: SimpleNamespace(
                number=7, pid=42, program="train", workload="w", uid=1000, labels={}, gpus={0},
                attaching={}, allocating={}, pinning={}, connection=connection,
            )
        }  # fmt: skip

    def told(self, reason: str) -> list[str]:
        return [event.message for event in self.journal.after(0, 10_000) if event.reason == reason]


def executor_of(agent: Any) -> Executor:
    nothing: Any = SimpleNamespace(refused=lambda *_: None, grown=lambda *_: None)
    return Executor(
        agent.runtime,
        SimpleNamespace(by_number=agent.clients),  # type: ignore[arg-type]
        arbiter=nothing,
        gpus={},
        kernel=nothing,
        settings=nothing,
        timeline=nothing,
        journal=agent.journal,
    )


def test_damaged_copies_of_one_process_are_merged() -> None:
    agent: Any = Agent()
    executor = executor_of(agent)
    for _ in range(TIMES):
        executor.damaged(agent.clients[7], 0, 2 << 20)
    text = "2 MiB of its GPU memory were damaged while they were on the host"
    assert agent.told("HostCopyDamaged") == [text] * 3
    assert agent.lines == ["damaged"] * 3
    agent.now_s += 10
    assert agent.told("HostCopyDamaged")[3:] == [f"{text} ({TIMES - 3} times within 10 s)"]


def test_refusals_of_one_process_are_merged() -> None:
    agent: Any = Agent()
    executor = executor_of(agent)
    for serial in range(1, TIMES + 1):
        executor.carry_out(do.Refused(7, 0, serial, "limit", "too much"))
    assert agent.told("Refused") == ["too much"] * 3
    assert agent.lines == ["refused"] * 3
    agent.now_s += 10
    assert agent.told("Refused")[3:] == [f"too much ({TIMES - 3} times within 10 s)"]


def test_changes_of_one_share_are_merged() -> None:
    agent: Any = Agent()
    record = SimpleNamespace(id="w", uid=1000, share=Share(), name="", program="train", root_pid=42)
    workload = SimpleNamespace(record=record, clients={7})
    workloads: Any = SimpleNamespace(by_id={"w": workload}, promise=lambda *_: None)
    gpus: Any = {0: SimpleNamespace(budget=SimpleNamespace(capacity_bytes=1))}
    cards: Any = None
    shares = Shares(
        agent.runtime, agent.clients, gpus, agent.arbiter, agent.journal, workloads, cards
    )
    for _ in range(TIMES):
        shares.change(protocol.SetShare(target="7", latency=True))
    assert len(agent.told("ShareChanged")) == 3
    assert agent.lines == ["share_set"] * 3
    agent.now_s += 10
    (last,) = agent.told("ShareChanged")[3:]
    assert last == f"latency: True ({TIMES - 3} times within 10 s)"
